#include "cupti_tracer/callbacks.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "cupti_tracer/callback_hook.h"

// Hooks that were compiled as callbacks (cupti_tracer/callback_hook.h). The table of hooks has others as well, which
// CUPTI knows nothing of: PyTorch's, the C library's.
#define HOOK(library, symbol) \
  extern "C" __attribute__((weak, visibility("hidden"))) void devtrace_callback_##symbol(const void* packed);
#include "interpose/linking/hooks.inc"
#undef HOOK

namespace devtrace::cupti_tracer {

thread_local constinit const CallbackContext* callback_context = nullptr;

namespace {

using Hook = void (*)(const void* packed);

struct Named {
  std::string_view symbol;
  Hook hook;
};

Hook hook_of(std::string_view symbol) {
  static const Named hooks[] = {
#define HOOK(library, symbol) {#symbol, &devtrace_callback_##symbol},
#include "interpose/linking/hooks.inc"
#undef HOOK
  };
  for (const Named& named : hooks)
    if (named.symbol == symbol) return named.hook;
  return nullptr;
}

struct Row {
  Hook hook;
  unsigned version;
};
constexpr uint32_t kMostIds = 4096;  // of a domain; CUDA 13 has 807
constinit Row rows[2][kMostIds] = {};

Row* row_of(CUpti_CallbackDomain domain, uint32_t id) {
  if (id >= kMostIds) return nullptr;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) return &rows[0][id];
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return &rows[1][id];
  return nullptr;
}

// CUPTI's names of runtime functions end in the CUDA version that brought their parameters: "cudaMalloc_v3020". Takes
// it off.
unsigned cut_version(std::string_view& name) {
  const size_t at = name.rfind("_v");
  unsigned version = 0;
  if (at == name.npos || name.size() - at < 6) return 0;  // _v2, _v3: a driver function's
  const auto end = std::from_chars(name.data() + at + 2, name.data() + name.size(), version);
  if (end.ptr != name.data() + name.size()) return 0;
  name.remove_suffix(name.size() - at);
  return version;
}

constinit std::atomic<bool> events_enabled{false};

// How many callbacks of the thread's calls have been entered and not left.
thread_local constinit int depth = 0;

// A call that was entered before anything was delivered.
enum class Unseen : uint8_t { none, reported, unreported };
thread_local constinit Unseen unseen = Unseen::none;

void run(const Row& row, const CUpti_CallbackData& data) noexcept {
  const int saved = errno;
  CallbackContext context;
  context.exit = data.callbackSite == CUPTI_API_EXIT;
  context.outermost = depth == 1;
  context.version = row.version;
  context.result = data.functionReturnValue;
  uint64_t nowhere = 0;
  context.at_entry = data.correlationData ? data.correlationData : &nowhere;
  context.correlation_id = data.correlationId;
  const CallbackContext* const outer = callback_context;
  callback_context = &context;
  row.hook(data.functionParams);
  callback_context = outer;
  errno = saved;
}

}  // namespace

int enable_callbacks(const Library& cupti, CUpti_SubscriberHandle subscriber, std::string& refused) {
  constexpr int kMostNames = 6;
  int enabled = 0, left_out = 0;
  std::string error;
  refused.clear();
  for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
    for (uint32_t id = 0; id < kMostIds; ++id) {
      const char* text = nullptr;
      if (cupti.cuptiGetCallbackName(domain, id, &text) != CUPTI_SUCCESS || !text) break;  // past the last
      std::string_view name = text;
      const unsigned version = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? cut_version(name) : 0;
      const Hook hook = hook_of(name);
      if (!hook) continue;
      *row_of(domain, id) = {hook, version};
      if (const CUptiResult result = cupti.cuptiEnableCallback(1, subscriber, domain, id); result == CUPTI_SUCCESS) {
        ++enabled;
      } else {
        if (left_out < kMostNames) (refused += left_out ? ", " : "") += name;
        if (left_out++ == 0) error = cupti.text(result);
      }
    }
  }
  if (left_out > kMostNames) refused += " and " + std::to_string(left_out - kMostNames) + " more";
  if (left_out > 0) refused += " (" + error + ")";
  return enabled;
}

void enable_events(bool whether) {
  events_enabled.store(whether, std::memory_order_relaxed);
}

void inside_call(bool reported) {
  unseen = reported ? Unseen::reported : Unseen::unreported;
}

void CUPTIAPI callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* raw) {
  const Row* const row = row_of(domain, id);
  if (!row || !row->hook || !raw) return;
  const auto& data = *static_cast<const CUpti_CallbackData*>(raw);
  if (unseen != Unseen::none && depth == 0) {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) return;
    const bool its_exit = data.callbackSite == CUPTI_API_EXIT;
    if (its_exit && unseen == Unseen::unreported) depth = 1;
    unseen = Unseen::none;  // also when another call begins: the exit was of a function without a hook
  }
  // What a hook asks CUDA itself is a call inside this one: the depth counts until its exit has been told.
  if (data.callbackSite == CUPTI_API_ENTER) ++depth;
  if (events_enabled.load(std::memory_order_relaxed) && depth > 0) run(*row, data);
  if (data.callbackSite == CUPTI_API_EXIT && depth > 0) --depth;
}

}  // namespace devtrace::cupti_tracer

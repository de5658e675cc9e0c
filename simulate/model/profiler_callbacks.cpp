// The tables behind simulate/common/callbacks.h.
#include "simulate/model/profiler_callbacks.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "simulate/common/callbacks.h"
#include "simulate/model/device.h"
#include "simulate/model/kernels/module.h"
#include "simulate/model/stream.h"

namespace devtrace::simulate {
namespace {

struct Table {
  Domain domain;
  const Callable* functions;
  size_t count;
};
struct Tables {
  std::mutex mutex;
  std::vector<Table> all;
  uint8_t wanted[kDomains][kMostCallbacks] = {};
};
// Libraries add theirs in their constructors: so made at the first use, and never destroyed.
Tables& tables() {
  static auto* t = [] {
    pthread_atfork([] { tables().mutex.lock(); }, [] { tables().mutex.unlock(); }, [] { tables().mutex.unlock(); });
    return new Tables;
  }();
  return *t;
}

std::atomic<const Listener*> g_listener{nullptr};
std::atomic<uint32_t> g_correlations{0};
std::atomic<bool> g_work{false};
thread_local uint32_t t_correlation = 0;  // of the runtime call, or else the driver call, that the thread is in

// Calls that are inside a wrapper stay there; whoever comes next takes the new way.
void point(const Callable& f, bool wrapped) {
  __atomic_store_n(f.entry, wrapped ? f.wrapper : f.implementation, __ATOMIC_RELEASE);
}

}  // namespace

uint32_t current_correlation() {
  return t_correlation;
}

void notice(Domain domain, uint32_t callback, CUcontext context, CUstream stream) {
  if (const Listener* listener = g_listener.load(std::memory_order_acquire))
    listener->noticed({domain, callback, context, stream});
}

const Listener* work_listener() {
  return g_work.load(std::memory_order_relaxed) ? g_listener.load(std::memory_order_acquire) : nullptr;
}

}  // namespace devtrace::simulate

using namespace devtrace::simulate;

extern "C" {

void devtrace_sim_calls_add(Domain domain, const Callable* functions, size_t count) {
  Tables& t = tables();
  std::lock_guard lock(t.mutex);
  t.all.push_back({domain, functions, count});
  const bool injecting = domain == kRuntime && injection_pending();
  for (size_t i = 0; i < count; ++i) {
    uint8_t& wanted = t.wanted[domain][functions[i].callback];
    if (injecting) wanted |= kWantInjection;
    if (wanted) point(functions[i], true);
  }
}

void devtrace_sim_calls_want(Domain domain, uint32_t callback, Want who, int on) {
  if (domain >= kDomains || callback >= kMostCallbacks) return;
  Tables& t = tables();
  std::lock_guard lock(t.mutex);
  uint8_t& wanted = t.wanted[domain][callback];
  const bool before = wanted != 0;
  wanted = static_cast<uint8_t>(on ? wanted | who : wanted & ~who);
  if (before == (wanted != 0)) return;
  for (const Table& table : t.all) {
    if (table.domain != domain) continue;
    for (size_t i = 0; i < table.count; ++i)
      if (table.functions[i].callback == callback) point(table.functions[i], wanted != 0);
  }
}

void devtrace_sim_work_want(int on) {
  g_work = on != 0;
}

void devtrace_sim_calls_listen(const Listener* listener) {
  g_listener.store(listener, std::memory_order_release);
}

// A driver call that the runtime makes has the runtime call's number: whatever it enqueues can then be found by either.
void devtrace_sim_call_enter(Call* call) {
  call->outer = t_correlation;
  if (call->domain == kRuntime || !t_correlation) t_correlation = g_correlations.fetch_add(1) + 1;
  call->correlation = t_correlation;
  if (const Listener* listener = g_listener.load(std::memory_order_acquire)) listener->enter(call);
}
void devtrace_sim_call_exit(Call* call) {
  if (const Listener* listener = g_listener.load(std::memory_order_acquire)) listener->exit(call);
  t_correlation = call->outer;
}

CUcontext devtrace_sim_context(uint32_t* number) {
  CUcontext context = current();
  if (number) *number = context ? static_cast<uint32_t>(context->id) : 0;
  return context;
}

int devtrace_sim_context_facts(CUcontext context, uint32_t* number, uint32_t* device) {
  if (!context || !handles<CUctx_st>().has(context)) return 0;
  *number = static_cast<uint32_t>(context->id);
  *device = static_cast<uint32_t>(context->device);
  return 1;
}

uint32_t devtrace_sim_stream_number(CUstream handle) {
  CUstream stream;
  return resolve(handle, &stream) ? 0 : static_cast<uint32_t>(stream->id);
}

const char* devtrace_sim_kernel_name(const void* handle) {
  const Function* f = function_of(static_cast<CUfunction>(const_cast<void*>(handle)));
  return f ? f->name.c_str() : nullptr;
}

}  // extern "C"

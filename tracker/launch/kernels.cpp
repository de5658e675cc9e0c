#include "tracker/launch/kernels.h"

#include <algorithm>
#include <atomic>

#include "tracker/base/address_map.h"
#include "tracker/base/message.h"
#include "tracker/findings/policy.h"
#include "tracker/memory/ownership.h"

namespace devtrace::launch::kernels {
namespace {

using device::Parameter;

struct Entry {
  uintptr_t function = 0;
  const Kernel* kernel = nullptr;
  uint64_t key() const { return function; }
};
constinit AddressMap<Entry> entries;
constinit std::atomic<bool> anything_known{false};

constexpr size_t kSmall = 64;  // bytes: an array of a few pointers

// The aligned words that can be addresses, by `use(parameter, offset in the block)`.
template <class Used>
KernelWords words_by(const Kernel& kernel, const Used& use) {
  KernelWords found;
  const std::vector<Parameter>& parameters = kernel.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    WordUse before;
    // A pointer is aligned in the block; a parameter that starts unaligned holds none before the next multiple.
    for (size_t at = (8 - parameter.offset % 8) % 8; at + 8 <= parameter.size; at += 8) {
      const WordUse now = use(parameter, parameter.offset + at);
      if (now.as != WordUse::As::nothing && now == before) {
        ++found.runs.back().words;
        continue;
      }
      before = now;
      if (now.as == WordUse::As::nothing) continue;
      WordRun run{static_cast<uint16_t>(i), static_cast<uint16_t>(at), static_cast<uint32_t>(parameter.offset + at), 1,
                  now.as == WordUse::As::address};
      if (now.array) {
        run.array = static_cast<int>(std::ranges::find(found.arrays, *now.array) - found.arrays.begin());
        if (run.array == std::ssize(found.arrays)) found.arrays.push_back(*now.array);
      }
      found.runs.push_back(run);
    }
  }
  for (const WordRun& run : found.runs) {
    if (!run.address || run.array >= 0) {
      found.other_runs.push_back(run);
      continue;
    }
    for (uint32_t word = 0; word < run.words; ++word)
      found.addresses.push_back({run.parameter, static_cast<uint32_t>(run.in_parameter + word * sizeof(uint64_t))});
  }
  found.excused = kernel.excused;
  found.each_counts = found.arrays.empty() && !found.excused && memory::ownership::Table();
  return found;
}

}  // namespace

namespace detail {
thread_local constinit Memory memory{};
constinit std::atomic<uint32_t> generation{1};
}  // namespace detail

namespace {
// In the first place that is free; where none is, in its own.
void remember_here(const Kernel* kernel, size_t first) {
  size_t place = first;
  for (size_t i = 1; i < detail::kTried && detail::memory.places[place]; ++i) place = (first + i) % detail::kPlaces;
  detail::memory.places[detail::memory.places[place] ? first : place] = kernel;
}
}  // namespace

const Kernel* known(const void* function) {
  if (const Kernel* const kernel = remembered(function)) return kernel;
  const auto key = reinterpret_cast<uintptr_t>(function);
  const uint32_t now = detail::generation.load(std::memory_order_relaxed);
  if (detail::memory.generation != now) {
    detail::memory = {};
    detail::memory.generation = now;
  }
  Entry entry;
  if (!entries.get(key, entry)) return nullptr;
  remember_here(entry.kernel, detail::place_of(key));
  return entry.kernel;
}

const Kernel* remember(const void* function, std::string name, const std::vector<Parameter>& parameters) {
  memory::ownership::prepare();
  auto* kernel = new Kernel;
  kernel->excused = findings::policy::may_reach_other_devices(name);
  kernel->function = function;
  kernel->name = std::move(name);
  kernel->parameters = parameters;
  const auto any = [](const Parameter& parameter, size_t) {
    return WordUse{parameter.size <= kSmall ? WordUse::As::address : WordUse::As::possible_address, {}};
  };
  kernel->words_.store(new KernelWords(words_by(*kernel, any)));
  // Two threads that ask at once leave one small object behind.
  const auto key = reinterpret_cast<uintptr_t>(function);
  entries.put({key, kernel});
  anything_known.store(true, std::memory_order_relaxed);
  return kernel;
}

const void* named(std::string_view name) {
  const void* found = nullptr;
  entries.for_each([&](const Entry& entry) {
    if (entry.kernel->name == name) found = reinterpret_cast<const void*>(entry.function);
  });
  return found;
}

void ask_code(const Kernel& kernel, const WordUses& uses) {
  const auto used = [&](const Parameter& parameter, size_t in_block) {
    if (uses) return uses(in_block);
    return WordUse{parameter.size == sizeof(void*) ? WordUse::As::possible_address : WordUse::As::nothing, {}};
  };
  auto* const left = new KernelWords(words_by(kernel, used));
  left->code_asked = true;
  if (verbose())
    explain("kernel %s: %s; %zu runs of words can be addresses", kernel.name.c_str(),
            uses ? "its code was read" : "its code cannot be read", left->runs.size());
  // The old list stays: other threads may be reading it.
  kernel.words_.store(left, std::memory_order_release);
}

void forget_all() {
  if (!anything_known.exchange(false, std::memory_order_relaxed)) return;
  entries.clear();
  detail::generation.fetch_add(1, std::memory_order_relaxed);
}

void before_fork() {
  entries.lock();
}

void after_fork() {
  entries.unlock();
}

}  // namespace devtrace::launch::kernels

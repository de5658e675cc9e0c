// A launch is looked at before it happens: does every pointer among its parameters lead to memory of the device on
// which the kernel runs?
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "common/kernel_run.h"
#include "tracker/base/thread_state.h"
#include "tracker/interface/event_types.h"
#include "tracker/launch/kernels.h"
#include "tracker/memory/devices_in_use.h"
#include "tracker/memory/host_memory.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/pointer_tables.h"

namespace devtrace::launch {

// The same as `passes` of what is left to be looked at: from one of the kernel's addresses on, for one device.
bool rest_passes(const KernelWords& words, const void* const* parameters, const AddressWord* from,
                 memory::ownership::Table::Devices alone);

// Hot, for the launches that are nearly all: on the device that the thread has chosen, of a kernel that it has launched
// before, with an address for each parameter. Whether nothing is amiss; else `check` has to look. `passed()`: nothing
// is. `look`, as rest_passes, answers where that takes longer. Inline and with these at the ends, so that what tells of
// a launch is one function that calls nothing and has no frame.
template <class Passed, class Look>
[[gnu::always_inline]] inline bool passes(const void* function, const void* const* parameters, const Passed& passed,
                                          const Look& look) {
  const Kernel* const kernel = kernels::remembered(function);
  const int device = thread_state::device();
  if (!kernel || !parameters || static_cast<unsigned>(device) >= memory::ownership::kDevices) [[unlikely]]
    return false;
  const auto alone = memory::ownership::detail::only(Device::cuda(device));
  const KernelWords& words = kernel->words();
  const memory::ownership::Table table;
  const AddressWord* place = std::to_address(words.addresses.begin());
  if (words.each_counts && !memory::pointer_tables::any() && memory::devices_in_use::has_computed(alone)) [[likely]] {
    const AddressWord* const end = std::to_address(words.addresses.end());
    for (; place != end; ++place) {
      uintptr_t word;
      std::memcpy(&word, static_cast<const char*>(parameters[place->parameter]) + place->in_parameter, sizeof word);
      if (table.alone(word, alone)) [[likely]]
        continue;
      // A null pointer or a small number; by the chunk, which is at hand.
      constexpr unsigned kBits = memory::ownership::kChunkBits;
      if (word >> kBits >= memory::host_memory::kFirst >> kBits) return look(words, parameters, place, alone);
    }
    if (words.other_runs.empty()) return passed();
  }
  return look(words, parameters, place, alone);
}

// Hot: about a nanosecond a word. What it finds suspicious is looked at closely, and reported, before it returns.
void check(const events::Launch& launch);

// The simulated driver has computed a kernel. Reports what it says of its accesses, and what `check` has left for this
// moment: what a launch was given and the kernel did with it is one finding.
void ran(const KernelRun& run) noexcept;

// Reports a launch that CUDA refused for its stream, unless `check` has said what is wrong with it.
void report_refused(const events::Launch& launch) noexcept;

}  // namespace devtrace::launch

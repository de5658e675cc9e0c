#include "tracker/launch/launch_check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tracker/base/thread_state.h"
#include "tracker/findings/findings.h"
#include "tracker/interface/platform.h"
#include "tracker/launch/kernels.h"
#include "tracker/launch/library_check.h"
#include "tracker/memory/devices_in_use.h"
#include "tracker/memory/host_memory.h"
#include "tracker/memory/pointer_tables.h"
#include "tracker/memory/untracked_memory.h"

namespace devtrace::launch {
namespace {

using findings::MisplacedLaunch;
using memory::ownership::Table;

// Where the words of a run are, as many as there are: a block may end early.
struct WordSpan {
  const char* start;
  uint32_t words;
};
[[gnu::always_inline]] inline WordSpan words_of(const events::Launch& launch, const WordRun& run) {
  if (launch.parameters)
    return {static_cast<const char*>(launch.parameters[run.parameter]) + run.in_parameter, run.words};
  if (run.in_block >= launch.block_bytes) return {nullptr, 0};
  const size_t left = (launch.block_bytes - run.in_block) / sizeof(uintptr_t);
  return {static_cast<const char*>(launch.block) + run.in_block,
          static_cast<uint32_t>(std::min<size_t>(run.words, left))};
}

// Of an array of which each block takes the entry with its own number, the entries that there are blocks for. The rest
// often holds addresses of another device, which would be looked at closely at every launch.
[[gnu::always_inline]] inline WordSpan taken_part_of(const events::Launch& launch, const KernelWords& words,
                                                     const WordRun& run) {
  WordSpan span = words_of(launch, run);
  if (run.array < 0) return span;
  const device::Array& array = words.arrays[static_cast<size_t>(run.array)];
  const uint32_t blocks = launch.grid[array.dimension];
  if (array.table_width != 0 || blocks == 0) return span;
  const auto before = static_cast<uint32_t>(array.entry_at(run.in_block));
  span.words = std::min(span.words, blocks - std::min(blocks, before));
  return span;
}

uintptr_t word_at(const char* start, size_t index) {
  uintptr_t value;
  std::memcpy(&value, start + index * sizeof value, sizeof value);
  return value;
}

// A number out of the parameter block.
std::optional<uint64_t> number_at(const events::Launch& launch, size_t offset, size_t bytes) {
  uint64_t number = 0;
  const char* place = nullptr;
  if (!launch.parameters) {
    if (offset + bytes <= launch.block_bytes) place = static_cast<const char*>(launch.block) + offset;
  } else {
    const auto& all = launch.kernel->parameters;
    for (size_t i = 0; i < all.size() && !place; ++i)
      if (offset >= all[i].offset && offset + bytes <= all[i].offset + all[i].size)
        place = static_cast<const char*>(launch.parameters[i]) + (offset - all[i].offset);
  }
  if (!place) return std::nullopt;
  std::memcpy(&number, place, bytes);
  return number;
}

// Whether the launch uses the word number `index` of a run.
bool is_used(const events::Launch& launch, const KernelWords& words, const WordRun& run, uint32_t index) {
  return run.array < 0 || words.arrays[static_cast<size_t>(run.array)].takes(
                              run.in_block + index * sizeof(uintptr_t), launch.grid,
                              [&](size_t offset, size_t bytes) { return number_at(launch, offset, bytes); });
}

Device current_device() {
  int ordinal = thread_state::device();
  if (ordinal < 0) {
    ordinal = platform().current_device();
    if (ordinal < 0) return {};
    thread_state::set_device(ordinal);
  }
  return Device::cuda(ordinal);
}

// Hot. Whether one of the kernel's addresses may lead to memory of the host.
bool may_reach_host(const events::Launch& launch, const KernelWords& words) {
  for (const WordRun& run : words.runs) {
    if (!run.address) continue;
    const WordSpan span = taken_part_of(launch, words, run);
    for (uint32_t i = 0; i < span.words; ++i) {
      const uintptr_t word = word_at(span.start, i);
      if (memory::host_memory::possible(word) && !memory::ownership::likely(word).known()) return true;
    }
  }
  return false;
}

// Whether one of the addresses is that of a table of addresses, all of which lead elsewhere.
[[gnu::noinline]] bool given_table_of_others(const events::Launch& launch, Device here) {
  for (const WordRun& run : launch.kernel->words().runs) {
    const WordSpan span = words_of(launch, run);
    for (uint32_t i = 0; i < span.words; ++i)
      if (memory::pointer_tables::elsewhere(word_at(span.start, i), here)) return true;
  }
  return false;
}

// What words lead to.
struct Owners {
  const Table table;
  Table::Devices devices = Table::kAll;
  bool host = false;  // one of the kernel's addresses may lead to memory of the host

  [[gnu::always_inline]] void add_address(const void* place) {
    const uintptr_t word = word_at(static_cast<const char*>(place), 0);
    const Table::Devices of_word = table.of(word);
    devices &= of_word;
    if (of_word == Table::kAll) host |= memory::host_memory::possible(word);
  }
  [[gnu::always_inline]] void add(const WordRun& run, const WordSpan& span) {
    if (!run.address) {
      devices &= table.of_all(span.start, span.words);
      return;
    }
    for (uint32_t i = 0; i < span.words; ++i) add_address(span.start + i * sizeof(uintptr_t));
  }
  [[gnu::always_inline]] void add(const KernelWords& words, const void* const* parameters) {
    for (const AddressWord& place : words.addresses)
      add_address(static_cast<const char*>(parameters[place.parameter]) + place.in_parameter);
  }
  bool all_of(Device here) const { return Table::has(devices, here); }
};

// Hot. Whether something about a launch on `here` may be amiss.
bool suspicious(const events::Launch& launch, Device here) {
  const KernelWords& words = launch.kernel->words();
  Owners owners;
  if (!owners.table) return may_reach_host(launch, words);
  if (launch.parameters) owners.add(words, launch.parameters);
  for (const WordRun& run : launch.parameters ? words.other_runs : words.runs)
    owners.add(run, taken_part_of(launch, words, run));
  return !owners.all_of(here) || owners.host || (memory::pointer_tables::any() && given_table_of_others(launch, here));
}

void learn(const events::Launch& launch) {
  unsigned questions = memory::untracked_memory::kQuestions;
  for (const WordRun& run : launch.kernel->words().runs) {
    const WordSpan span = words_of(launch, run);
    for (uint32_t i = 0; i < span.words; ++i) memory::untracked_memory::learn(word_at(span.start, i), questions);
  }
}

// Adds the pointers into memory of the host that the device cannot reach. Whether there are any.
bool add_unreachable(MisplacedLaunch& misplaced) {
  auto& pointers = misplaced.pointers;
  const size_t before = pointers.size();
  const KernelWords& words = misplaced.launch.kernel->words();
  for (const WordRun& run : words.runs) {
    if (!run.address) continue;
    const WordSpan span = words_of(misplaced.launch, run);
    for (uint32_t i = 0; i < span.words; ++i) {
      const uintptr_t address = word_at(span.start, i);
      if (!memory::host_memory::possible(address) || memory::ownership::likely(address).known()) continue;
      if (!is_used(misplaced.launch, words, run, i)) continue;
      if (memory::ownership::extent_at(address) || !memory::host_memory::readable(address) ||
          !platform().host_within_reach || platform().host_within_reach(misplaced.device.index, address))
        memory::host_memory::remember_harmless(address);
      else
        pointers.push_back(
            {address, Device::cpu(), run.parameter, static_cast<uint16_t>(run.in_parameter + i * sizeof address)});
    }
  }
  const auto place = [](const MisplacedLaunch::Pointer& p) { return std::pair(p.parameter, p.in_parameter); };
  const bool added = pointers.size() != before;
  if (added) std::sort(pointers.begin(), pointers.end(), [&](auto& a, auto& b) { return place(a) < place(b); });
  return added;
}

// Fills in the pointers into device memory, by exact owners: the table keeps owners of memory that is gone, and a word
// may only look like an address. Whether one leads elsewhere.
bool resolve_owners(MisplacedLaunch& misplaced) {
  misplaced.pointers.clear();
  bool elsewhere = false;
  const KernelWords& words = misplaced.launch.kernel->words();
  for (const WordRun& run : words.runs) {
    const WordSpan span = words_of(misplaced.launch, run);
    for (uint32_t i = 0; i < span.words; ++i) {
      const uintptr_t address = word_at(span.start, i);
      if (!memory::ownership::likely(address).known() || !is_used(misplaced.launch, words, run, i)) continue;
      const auto extent = memory::ownership::extent_at(address);
      if (!extent || extent->memory != memory::ownership::Memory::device) continue;
      const Device owner = memory::untracked_memory::owner_now(address, *extent, misplaced.device);
      if (!owner.known()) continue;
      misplaced.pointers.push_back(
          {address, owner, run.parameter, static_cast<uint16_t>(run.in_parameter + i * sizeof address)});
      elsewhere = elsewhere || owner != misplaced.device;
      const auto table = memory::pointer_tables::elsewhere(address, misplaced.device);
      const auto entry = table ? memory::ownership::extent_at(table->first) : std::nullopt;
      if (!entry || entry->memory != memory::ownership::Memory::device || entry->device == misplaced.device) continue;
      misplaced.pointers.push_back({table->first, entry->device, run.parameter,
                                    static_cast<uint16_t>(run.in_parameter + i * sizeof address), true});
      elsewhere = true;
    }
  }
  return add_unreachable(misplaced) || elsewhere;
}

// Is the kernel given what lies elsewhere?
bool looked_closer(const events::Launch& launch, MisplacedLaunch& misplaced) {
  const ReentrancyGuard inside;
  misplaced.device = Device::cuda(launch.device >= 0 ? launch.device : platform().current_device());
  if (!misplaced.device.is_cuda()) return false;
  if (launch.device < 0) thread_state::set_device(misplaced.device.index);
  const Kernel& kernel = *launch.kernel;
  learn(launch);
  if (!suspicious(launch, misplaced.device)) return false;
  const bool by_code = kernel.words().code_asked;  // another thread may ask while this one looks
  bool elsewhere = resolve_owners(misplaced);
  if (!by_code && (elsewhere || kernel.worth_reading())) {
    if (!kernel.words().code_asked)
      launch::kernels::ask_code(kernel, platform().uses_of_parameters(launch.function, kernel.name));
    elsewhere = resolve_owners(misplaced);
  }
  return elsewhere;
}

// A launch whose kernel will be told of: the function, until that happens.
struct LeftForLater {
  const void* function;
  const void* stream;
};
thread_local constinit LeftForLater left_for_later{};

bool told_later(const events::Launch& launch) {
  const ReentrancyGuard inside;
  // Once: looking for it takes longer than all else that is done of a launch. Only a simulated driver has it.
  static const auto tells = reinterpret_cast<TellsOfKernel>(platform().symbol("libcuda.so", kTellsOfKernel));
  if (launch.graph || !tells || !tells(launch.kernel->name.c_str(), launch.stream)) return false;
  left_for_later = {launch.function, launch.stream};
  return true;
}

// The memory of the access, unless it is known from the parameters.
void add_access(MisplacedLaunch& misplaced, const KernelAccess& access) {
  misplaced.access = &access;
  const Device device = access.device >= 0 ? Device::cuda(access.device) : Device();
  if (access.to == KernelAccess::To::variable || access.to == KernelAccess::To::shared) misplaced.pointers.clear();
  const bool in_table = access.in_memory >= 0;
  auto& pointers = misplaced.pointers;
  const auto known = std::ranges::find_if(pointers, [&](const MisplacedLaunch::Pointer& it) {
    return access.parameter == it.parameter && access.in_parameter == it.in_parameter && !in_table && !it.in_table;
  });
  misplaced.accessed = static_cast<size_t>(known - pointers.begin());
  if (known != pointers.end()) return;
  // Not what was seen of the table before.
  std::erase_if(pointers, [](const MisplacedLaunch::Pointer& it) { return it.in_table; });
  misplaced.accessed = pointers.size();
  const auto parameter =
      access.parameter < 0 ? MisplacedLaunch::Pointer::kNoParameter : static_cast<uint16_t>(access.parameter);
  misplaced.pointers.push_back({access.address, device, parameter, static_cast<uint16_t>(access.in_parameter), in_table,
                                static_cast<uint32_t>(std::max<int64_t>(access.in_memory, 0)), access.variable});
}

// Speed no longer counts, unless it comes to this at every launch: the kernel's code is read once.
[[gnu::noinline]] void slow_path(const events::Launch& launch) noexcept {
  if (within_told_call()) return;
  MisplacedLaunch misplaced{launch, {}, {}};
  try {
    if (told_later(launch)) return;
    if (looked_closer(launch, misplaced)) findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost, the launch goes on
  }
}

// All that the kernel was given, wherever it lies.
void look_at_all(MisplacedLaunch& misplaced) {
  const ReentrancyGuard inside;
  const events::Launch& launch = misplaced.launch;
  misplaced.device = Device::cuda(platform().current_device());
  learn(launch);
  if (!launch.kernel->words().code_asked)
    launch::kernels::ask_code(*launch.kernel, platform().uses_of_parameters(launch.function, launch.kernel->name));
  resolve_owners(misplaced);
}

}  // namespace

bool rest_passes(const KernelWords& words, const void* const* parameters, const AddressWord* from,
                 Table::Devices alone) {
  const Table table;
  if (words.excused || !table || !words.arrays.empty() || memory::pointer_tables::any()) return words.excused;
  memory::devices_in_use::computes(Device::cuda(std::countr_zero(alone)));
  const auto start_of = [&](const auto& place) {
    return static_cast<const char*>(parameters[place.parameter]) + place.in_parameter;
  };
  for (const AddressWord* const end = std::to_address(words.addresses.end()); from != end; ++from) {
    const uintptr_t word = word_at(start_of(*from), 0);
    if (table.alone(word, alone) || !memory::host_memory::in_range(word)) continue;
    if (!(table.of(word) & alone) || memory::host_memory::possible(word)) return false;
  }
  for (const WordRun& run : words.other_runs) {
    if (!(table.of_all(start_of(run), run.words) & alone)) return false;
    for (uint32_t i = 0; run.address && i < run.words; ++i)
      if (const uintptr_t word = word_at(start_of(run), i);
          table.of(word) == Table::kAll && memory::host_memory::possible(word))
        return false;
  }
  return true;
}

void check(const events::Launch& launch) {
  if (!launch.kernel || launch.kernel->excused) return;
  const Device here = launch.device >= 0 ? Device::cuda(launch.device) : current_device();
  memory::devices_in_use::computes(here);
  if (suspicious(launch, here)) slow_path(launch);
}

void ran(const KernelRun& run) noexcept {
  const LeftForLater before = std::exchange(left_for_later, {});
  if ((!before.function && !run.access) || within_told_call()) return;
  try {
    events::Launch launch;
    launch.kernel = kernels::known(before.function);
    const bool left = launch.kernel && launch.kernel->name == run.kernel;
    launch.function = left ? before.function : kernels::named(run.kernel);
    launch.stream = left ? before.stream : nullptr;
    launch.kernel = kernels::known(launch.function);
    if (!launch.kernel || launch.kernel->excused) return;
    launch.block = run.parameters;
    launch.block_bytes = run.parameter_bytes;
    std::copy_n(run.grid, 3, launch.grid);
    std::copy_n(run.block, 3, launch.block_shape);
    launch.device = run.device;
    MisplacedLaunch misplaced{launch, {}, {}};
    bool amiss = looked_closer(launch, misplaced) && left;
    if (amiss && run.computed && !run.access) {
      std::erase_if(misplaced.pointers, [&](const MisplacedLaunch::Pointer& it) {
        return it.device != misplaced.device && !run.usable(run.context, it.address);
      });
      amiss = std::ranges::any_of(misplaced.pointers, [&](const auto& it) { return it.device != misplaced.device; });
    }
    if (run.access) {
      // `check` has told of what the launch was given itself.
      const bool told = !left && run.access->to == KernelAccess::To::memory && run.access->in_memory < 0 &&
                        !run.access->variable && run.access->device != run.device;
      misplaced.device = Device::cuda(run.device);
      misplaced.launched_at = run.launched_at;
      if (misplaced.pointers.empty()) look_at_all(misplaced);
      add_access(misplaced, *run.access);
      amiss = !told;
    }
    if (amiss) findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost
  }
}

void report_refused(const events::Launch& launch) noexcept {
  if (!launch.kernel || within_told_call()) return;
  MisplacedLaunch misplaced{launch, {}, {}};
  try {
    look_at_all(misplaced);
    if (misplaced.device.is_cuda()) findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost
  }
}

}  // namespace devtrace::launch

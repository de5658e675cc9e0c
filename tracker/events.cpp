#include "tracker/events.h"

#include <atomic>
#include <utility>

#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/run_isolated.h"
#include "tracker/base/thread_state.h"
#include "tracker/copy/copy_check.h"
#include "tracker/copy/copy_times.h"
#include "tracker/copy/graph_copies.h"
#include "tracker/copy/traffic.h"
#include "tracker/findings/findings.h"
#include "tracker/interface/platform.h"
#include "tracker/launch/kernels.h"
#include "tracker/launch/launch_check.h"
#include "tracker/launch/library_check.h"
#include "tracker/log/log.h"
#include "tracker/memory/device_history.h"
#include "tracker/memory/library_descriptors.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/live_memory.h"
#include "tracker/memory/opened_access.h"
#include "tracker/memory/peer_access.h"
#include "tracker/memory/pointer_tables.h"
#include "tracker/memory/pooled_memory.h"
#include "tracker/memory/provenance.h"
#include "tracker/memory/untracked_memory.h"
#include "tracker/placement/memory_use.h"
#include "tracker/placement/placement.h"
#include "tracker/ranks/ranks.h"

namespace devtrace::events {
namespace {

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// A process that uses CUDA leaves a log even if it has no finding: the gate must be able to tell "nothing found" from
// "never ran".
void begin_log() {
  static std::atomic<bool> begun{false};
  if (log::is_open() || begun.exchange(true, std::memory_order_relaxed)) return;
  run_isolated(Stack::ours, [] { log::open(); });
  begun.store(false, std::memory_order_relaxed);  // a fork's child begins its own
}

// Memory from before devtrace was attached: CUDA is asked for its owner when it is first copied.
memory::CopyEnds ends_of(const Copy& copy) {
  const memory::CopyEnds ends = memory::ends_of(copy);
  if (process_start::attached() == 0 || (ends.to.likely.known() && ends.from.likely.known())) return ends;
  const ReentrancyGuard inside;
  unsigned questions = 2;
  for (const memory::CopyEnd& end : {ends.to, ends.from})
    if (end.address != 0) memory::untracked_memory::learn(end.address, questions);
  return memory::ends_of(copy);
}

}  // namespace

bool wants_blocks() {
  return options().provenance && !thread_state::inside();
}

void block_given(const void* address, size_t bytes, Device device) {
  if (!address || thread_state::inside() || !options().provenance) return;
  memory::provenance::given(number(address), bytes, device);
}

void block_taken(const void* address) {
  if (!address) return;
  memory::pointer_tables::gone(number(address));
  memory::provenance::taken(number(address));
}

namespace {
[[gnu::noinline]] void first_reported(const BlockReport& report) {
  options();
  block_reported(report);
}
[[gnu::noinline]] void of_table_taken(const BlockReport& report) {
  memory::pointer_tables::gone(number(report.address));
  memory::provenance::taken(number(report.address), report.has);
}
}  // namespace

// Whom a block is told to tells of the rest as well: this has no frame.
void block_reported(const BlockReport& report) {
  const Options* const wanted = known_options();
  if (!wanted) [[unlikely]]
    return first_reported(report);
  if (!report.address) [[unlikely]]
    return memory::provenance::torch_has(report.has);
  if (report.bytes <= 0) {
    if (memory::pointer_tables::any()) [[unlikely]]
      return of_table_taken(report);
    return memory::provenance::taken(number(report.address), report.has);
  }
  if (thread_state::inside()) [[unlikely]]
    return memory::provenance::torch_has(report.has);
  if (!wanted->provenance) [[unlikely]]
    return memory::provenance::torch_has(report.has);
  memory::provenance::given(number(report.address), static_cast<size_t>(report.bytes), report.has);
}

void pool_object_made(const void* object, size_t bytes) {
  if (!object || thread_state::inside() || !options().provenance) return;
  memory::pooled_memory::made(number(object), bytes);
}

void pool_object_gone(const void* object) {
  if (object) memory::pooled_memory::gone(number(object));
}

void allocated(const void* address, size_t bytes, Device device, MemoryKind memory) {
  if (!address || thread_state::inside()) return;
  {
    const ReentrancyGuard inside;
    memory::ownership::add({number(address), bytes, memory == MemoryKind::device ? device : Device::cpu(), memory});
    if (options().provenance) memory::provenance::allocated(number(address), bytes, device);
  }
  begin_log();
}

void freed(const void* address) {
  if (!address) return;
  memory::pointer_tables::gone(number(address));
  memory::ownership::remove(number(address));
  if (options().provenance) memory::provenance::freed(number(address));
}

void unmapped(const void* address, size_t bytes) {
  memory::ownership::remove_starting_in(number(address), number(address) + bytes);
  if (options().provenance) memory::provenance::freed_starting_in(number(address), number(address) + bytes);
}

void device_reset(int ordinal) {
  if (thread_state::inside()) return;
  const ReentrancyGuard inside;
  const Device device = Device::cuda(ordinal);
  memory::ownership::Extent now;
  try {
    for (const memory::ownership::Extent& extent : memory::ownership::all())
      if ((extent.device == device || extent.memory != memory::ownership::Memory::device) &&
          platform().memory_at(extent.address, now) != Platform::Answer::known)
        freed(reinterpret_cast<const void*>(extent.address));
  } catch (...) {  // out of memory: what is gone is remembered until its addresses are given out again
  }
}

const Kernel* known_kernel(const void* function) {
  return launch::kernels::known(function);
}

const Kernel* kernel_described(const void* function, std::string name,
                               const std::vector<device::Parameter>& parameters) {
  return launch::kernels::remember(function, std::move(name), parameters);
}

void kernels_unloaded() {
  launch::kernels::forget_all();
}

bool wants_launches() {
  return options().launches;
}

namespace {
[[gnu::noinline]] bool rest_passes(const KernelWords& words, const void* const* parameters, const AddressWord* from,
                                   memory::ownership::Table::Devices alone) {
  return launch::rest_passes(words, parameters, from, alone) && placement::launched();
}
}  // namespace

bool passes(const void* function, const void* const* parameters) {
  if (thread_state::inside()) [[unlikely]]
    return false;
  const Options* const wanted = known_options();
  if (!wanted) [[unlikely]]
    return false;
  if (!wanted->launches) [[unlikely]]
    return false;
  return launch::passes(function, parameters, placement::launched, rest_passes);
}

void launched(const Launch& launch) {
  if (thread_state::inside()) return;
  launch::check(launch);
  placement::launched();
}

void variable_set(const void* address, size_t bytes, Device device) {
  if (options().provenance && !thread_state::inside()) memory::provenance::allocated(number(address), bytes, device);
}

uint32_t call_site() {
  return stacks::capture();
}

void kernel_ran(const KernelRun& run) {
  if (options().launches && !thread_state::inside()) launch::ran(run);
}

void launch_refused(const Launch& launch) {
  if (!thread_state::inside()) launch::report_refused(launch);
}

void library_handle_made(LibraryHandle handle, const char* function) {
  if (thread_state::inside() || !options().launches) return;
  const ReentrancyGuard inside;
  memory::library_handles::made(handle, function);
}

void library_handle_gone(LibraryHandle handle) {
  memory::library_handles::gone(handle);
}

void descriptor_made(const void* descriptor, const void* const* memory, size_t count) {
  if (options().launches) memory::library_descriptors::made(reinterpret_cast<uintptr_t>(descriptor), memory, count);
}

void descriptor_changed(const void* descriptor, const void* const* memory, size_t count) {
  memory::library_descriptors::changed(reinterpret_cast<uintptr_t>(descriptor), memory, count);
}

void descriptor_gone(const void* descriptor) {
  memory::library_descriptors::gone(reinterpret_cast<uintptr_t>(descriptor));
}

HandleKnown library_called(const LibraryCall& call) {
  if (thread_state::inside() || !options().launches) return HandleKnown::yes;
  return launch::check(call);
}

void library_returned() {
  launch::told_call_returned();
}

void library_refused(const LibraryCall& call) {
  if (!thread_state::inside() && options().launches) launch::report_refused(call);
}

void event_refused(const LibraryCall& call, int device) {
  if (!thread_state::inside() && options().launches) launch::report_refused_event(call, Device::cuda(device));
}

void rank_joins(const Rank& rank) {
  if (!thread_state::inside()) ranks::joins(rank);
}

void rank_joined(const Rank& rank, const void* handle) {
  if (!thread_state::inside()) ranks::joined(rank, handle);
}

void ranks_refused(const Rank* ranks, size_t count, Twice twice) {
  if (!thread_state::inside()) ranks::refused({ranks, count}, twice);
}

void rank_split(const void* parent, int color, const Rank& rank, const void* handle) {
  if (!thread_state::inside()) ranks::split(parent, color, rank, handle);
}

void rank_left(const void* handle) {
  ranks::left(handle);
}

void collective_called(const char* function, const void* handle, const Collective& call) {
  if (!thread_state::inside()) ranks::called(function, handle, call);
}

uint64_t collective_receives(const void* handle, const Collective& call) {
  if (!options().copies || thread_state::inside()) return 0;
  const auto rank = ranks::of(handle);
  return rank ? received_at_least(call, rank->rank, rank->size) : 0;
}

void collective_moves(const void* handle, uint64_t bytes) {
  const auto rank = ranks::of(handle);
  if (!rank || thread_state::inside()) return;
  stacks::OnePythonStack stack;
  copy::traffic::count_from_ranks(rank->device, bytes, stack);
}

bool wants_copies() {
  return options().provenance || options().copies;
}

void copied(const Copy& copy) {
  if (copy.bytes == 0 || thread_state::inside()) return;
  const Options& wanted = options();
  stacks::OnePythonStack stack;
  if (wanted.copies) {
    const memory::CopyEnds ends = ends_of(copy);
    copy::check(copy, ends);
    if (!copy.graph) copy::traffic::count(copy, ends, stack);
  }
  if (wanted.provenance && copy.to && copy.from) memory::provenance::copied(number(copy.to), number(copy.from), stack);
  if (wanted.launches && copy.to && copy.from && !copy.graph)
    memory::pointer_tables::copied(number(copy.to), copy.from, copy.bytes);
  placement::copied();
}

// What is kept of graphs may find no memory: then copies are not counted, and the graph is launched all the same.
template <class Work>
void of_graphs(const Work& work) noexcept {
  if (!options().copies || thread_state::inside()) return;
  const ReentrancyGuard inside;
  try {
    stacks::OnePythonStack stack;
    work(stack);
  } catch (...) {
  }
}

void copy_planned(const void* node, const Copy& copy) {
  of_graphs([&](stacks::OnePythonStack& stack) { copy::graph_copies::planned(node, copy, stack); });
}

void collective_planned(const void* node, const void* handle, uint64_t bytes) {
  const auto rank = ranks::of(handle);
  if (!rank) return;
  of_graphs(
      [&](stacks::OnePythonStack& stack) { copy::graph_copies::planned_from_ranks(node, rank->device, bytes, stack); });
}

bool copy_is_planned(const void* node) {
  return copy::graph_copies::is_planned(node);
}

void graph_node_gone(const void* node) {
  of_graphs([&](stacks::OnePythonStack&) { copy::graph_copies::node_gone(node); });
}

void graph_ready(const void* executable, const GraphCopy* copies, size_t count) {
  of_graphs([&](stacks::OnePythonStack& stack) { copy::graph_copies::ready(executable, copies, count, stack); });
}

void graph_copy_changed(const void* executable, const void* node, const Copy& copy) {
  of_graphs([&](stacks::OnePythonStack& stack) { copy::graph_copies::changed(executable, node, copy, stack); });
}

void graph_child_changed(const void* executable, const void* node, const GraphCopy* copies, size_t count) {
  of_graphs([&](stacks::OnePythonStack& stack) {
    copy::graph_copies::child_changed(executable, node, copies, count, stack);
  });
}

void graph_node_enabled(const void* executable, const void* node, bool enabled) {
  of_graphs([&](stacks::OnePythonStack&) { copy::graph_copies::enabled(executable, node, enabled); });
}

void graph_gone(const void* executable) {
  of_graphs([&](stacks::OnePythonStack&) { copy::graph_copies::gone(executable); });
}

void graph_launched(const void* executable) {
  if (!thread_state::inside()) copy::graph_copies::launched(executable);
}

void copy_took(uint32_t correlation_id, uint64_t bytes, uint64_t nanoseconds) {
  const ReentrancyGuard inside;
  try {
    copy::copy_times::took(correlation_id, bytes, nanoseconds);
  } catch (...) {  // out of memory: a time less
  }
}

void peers_changed(int device, int peer, bool allowed, bool own) {
  memory::peer_access::changed(device, peer, allowed, own);
  if (!allowed || !own || !options().provenance || thread_state::inside()) return;
  const ReentrancyGuard inside;
  memory::opened_access::of_pair(device, peer);
}

void range_opened(const void* address, size_t bytes) {
  if (!options().provenance || thread_state::inside()) return;
  const ReentrancyGuard inside;
  memory::opened_access::of_range(number(address), bytes);
}

void device_changed(int ordinal, const void* hook) {
  thread_state::set_device(ordinal);
  if (!thread_state::inside() && options().launches) memory::device_history::chosen(ordinal, hook);
}

void refused(const Refused& refusal) {
  if (thread_state::inside()) return;
  if (refusal.raised == Raised::checked) {  // it comes again as Python's exception
    const ReentrancyGuard inside;
    placement::note_out_of_memory(refusal.message);
  }
  findings::report(refusal);
}

}  // namespace devtrace::events

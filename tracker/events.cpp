#include "tracker/events.h"

#include <atomic>

#include "tracker/copies.h"
#include "tracker/copy_times.h"
#include "tracker/current_thread.h"
#include "tracker/device_history.h"
#include "tracker/findings.h"
#include "tracker/graph_copies.h"
#include "tracker/launches.h"
#include "tracker/log.h"
#include "tracker/options.h"
#include "tracker/peers.h"
#include "tracker/placement.h"
#include "tracker/provenance.h"
#include "tracker/runtime.h"
#include "tracker/traffic.h"

namespace devtrace::events {
namespace {

using current_thread::Inside;

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// A process that uses CUDA leaves a log even if it has no finding: the gate must be able to tell "nothing found" from
// "never ran".
void begin_log() {
  static std::atomic<bool> begun{false};
  if (log::is_open() || begun.exchange(true, std::memory_order_relaxed)) return;
  try {
    log::open();
  } catch (...) {  // out of memory: the program's own problem comes first
  }
  begun.store(false, std::memory_order_relaxed);  // a fork's child begins its own
}

}  // namespace

bool wants_blocks() {
  return options().provenance;
}

void block_given(const void* address, size_t bytes, Device device) {
  if (!address || current_thread::inside() || !options().provenance) return;
  provenance::given(number(address), bytes, device);
}

void block_taken(const void* address) {
  if (address) provenance::taken(number(address));
}

void allocated(const void* address, size_t bytes, Device device, ownership::Memory memory) {
  if (!address || current_thread::inside()) return;
  const Inside inside;
  ownership::add({number(address), bytes, memory == ownership::Memory::device ? device : Device::cpu(), memory});
  if (options().provenance) provenance::allocated(number(address), bytes, device);
  begin_log();
}

void freed(const void* address) {
  if (!address) return;
  ownership::remove(number(address));
  if (options().provenance) provenance::freed(number(address));
}

void unmapped(const void* address, size_t bytes) {
  ownership::remove_starting_in(number(address), number(address) + bytes);
  if (options().provenance) provenance::freed_starting_in(number(address), number(address) + bytes);
}

void device_reset(int ordinal) {
  if (current_thread::inside()) return;
  const Inside inside;
  const Device device = Device::cuda(ordinal);
  ownership::Extent now;
  try {
    for (const ownership::Extent& extent : ownership::all())
      if ((extent.device == device || extent.memory != ownership::Memory::device) &&
          runtime().memory_at(extent.address, now) != Runtime::Answer::known)
        freed(reinterpret_cast<const void*>(extent.address));
  } catch (...) {  // out of memory: what is gone is remembered until its addresses are given out again
  }
}

bool wants_launches() {
  return options().launches;
}

void launched(const Launch& launch) {
  if (current_thread::inside()) return;
  launches::check(launch);
  placement::launched();
}

bool wants_copies() {
  return options().provenance || options().copies;
}

void copied(const Copy& copy) {
  if (copy.bytes == 0 || current_thread::inside()) return;
  const Options& wanted = options();
  stacks::OnePythonStack stack;
  if (wanted.copies) {
    const copies::Owners likely{ownership::likely(number(copy.to)), ownership::likely(number(copy.from))};
    copies::check(copy, likely);
    if (!copy.graph) traffic::count(copy, likely, stack);
  }
  if (wanted.provenance && copy.to && copy.from) provenance::copied(number(copy.to), number(copy.from), stack);
  placement::copied();
}

// What is kept of graphs may find no memory: then copies are not counted, and the graph is launched all the same.
template <class Work>
void of_graphs(const Work& work) noexcept {
  if (!options().copies || current_thread::inside()) return;
  const Inside inside;
  try {
    stacks::OnePythonStack stack;
    work(stack);
  } catch (...) {
  }
}

void copy_planned(const void* node, const Copy& copy) {
  of_graphs([&](stacks::OnePythonStack& stack) { graph_copies::planned(node, copy, stack); });
}

bool copy_is_planned(const void* node) {
  return graph_copies::is_planned(node);
}

void graph_node_gone(const void* node) {
  of_graphs([&](stacks::OnePythonStack&) { graph_copies::node_gone(node); });
}

void graph_ready(const void* executable, const GraphCopy* copies, size_t count) {
  of_graphs([&](stacks::OnePythonStack& stack) { graph_copies::ready(executable, copies, count, stack); });
}

void graph_copy_changed(const void* executable, const void* node, const Copy& copy) {
  of_graphs([&](stacks::OnePythonStack& stack) { graph_copies::changed(executable, node, copy, stack); });
}

void graph_child_changed(const void* executable, const void* node, const GraphCopy* copies, size_t count) {
  of_graphs(
      [&](stacks::OnePythonStack& stack) { graph_copies::child_changed(executable, node, copies, count, stack); });
}

void graph_node_enabled(const void* executable, const void* node, bool enabled) {
  of_graphs([&](stacks::OnePythonStack&) { graph_copies::enabled(executable, node, enabled); });
}

void graph_gone(const void* executable) {
  of_graphs([&](stacks::OnePythonStack&) { graph_copies::gone(executable); });
}

void graph_launched(const void* executable) {
  if (!current_thread::inside()) graph_copies::launched(executable);
}

void copy_took(uint32_t number, uint64_t bytes, uint64_t nanoseconds) {
  const Inside inside;
  try {
    copy_times::took(number, bytes, nanoseconds);
  } catch (...) {  // out of memory: a time less
  }
}

void peers_changed(int device, int peer, bool allowed, bool own) {
  peers::changed(device, peer, allowed, own);
}

void device_changed(int ordinal) {
  current_thread::set_device(ordinal);
  if (options().launches && !current_thread::inside()) device_history::chosen(ordinal);
}

void refused(const Refused& refusal) {
  if (current_thread::inside()) return;
  const Inside inside;
  try {
    findings::report(refusal);
  } catch (...) {  // nothing of ours may reach PyTorch; what is lost is one report when memory has run out
  }
}

}  // namespace devtrace::events

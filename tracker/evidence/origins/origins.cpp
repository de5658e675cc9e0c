#include "tracker/evidence/origins/origins.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "common/format.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/evidence/origins/native_frames.h"
#include "tracker/memory/devices_in_use.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/opened_access.h"
#include "tracker/memory/ownership.h"

namespace devtrace::evidence {
namespace {

using memory::provenance::Origin;

double seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

// Of an event, or a choice of a device.
template <typename T>
void add_stack(T& out, stacks::StackId stack, const SourceText& source) {
  out.stack = python_stack(stacks::resolve(stack), source);
  if (!stacks::is_native(stack) || !options().native) return;
  std::vector<stacks::NativeFrame> frames = stacks::resolve_native(stack, true);
  out.call = take_called_function(frames);
  out.native = native_stack(frames, source_from_disk());
  out.native.known = false;
}

// Threads that PyTorch's engine has for the backward pass, for as long as the process lives.
bool is_autograds(int64_t thread) {
  std::ifstream name(fmt::format("/proc/self/task/{}/comm", thread));
  std::string text;
  return std::getline(name, text) && text.starts_with("pt_autograd_");
}

finding::Event event_of(const Origin& origin, const SourceText& source) {
  finding::Event event;
  event.time = seconds(origin.time);
  event.thread = origin.thread;
  add_stack(event, origin.stack, source);
  const bool shown =
      std::any_of(event.native.begin(), event.native.end(), [](const auto& each) { return each.project; });
  if (event.stack.empty() && event.call.empty() && !shown && is_autograds(origin.thread)) {
    event.call = "the backward pass";
    event.native = {};
  }
  return event;
}

finding::DeviceChange change_of(const memory::device_history::Choice& choice, const SourceText& source) {
  finding::DeviceChange change;
  change.time = seconds(choice.time);
  if (choice.device >= 0) change.device = Device::cuda(choice.device).name();
  add_stack(change, choice.stack, source);
  return change;
}

// What the thread's current device was then, and who chose it: of memory of CUDA devices.
finding::DeviceChoice choice_at(const Origin& origin, const SourceText& source) {
  if (!origin.device.is_cuda() || origin.time == 0) return {};
  const auto then = memory::device_history::held_at(origin.thread, origin.time);
  if (then.choice && then.choice->device >= 0) return change_of(*then.choice, source);
  finding::DeviceChoice choice;
  if (then.by_default) choice.device = Device::cuda(0).name(), choice.by_default = true;
  return choice;
}

}  // namespace

bool add_provenance(finding::Provenance& out, std::string_view device, uintptr_t storage, const SourceText& source) {
  const auto block = storage ? memory::provenance::block_at(storage) : std::nullopt;
  // Of the host's memory much is not PyTorch's, and never seen.
  const bool unseen = !block && storage && process_start::attached() > 0 && device.starts_with("cuda");
  out.before_attach = unseen || (block && block->existed);
  if (!block || (block->existed && !block->moved_from.known())) return false;
  if (!block->moved_from.known()) {
    out.created = creation(block->allocated, source);
    return block->pooled;
  }
  if (block->created.time != 0) {
    out.created = event_of(block->created, source);
    out.created.device = block->created.device.name();
  }
  out.moved = event_of(block->allocated, source);
  out.moved.from = block->moved_from.name();
  out.moved.to = block->allocated.device.name();
  out.moved.choice = choice_at(block->allocated, source);
  return block->pooled;
}

finding::Event creation(const Origin& origin, const SourceText& source) {
  finding::Event event = event_of(origin, source);
  event.device = origin.device.name();
  event.choice = choice_at(origin, source);
  return event;
}

finding::Event creation_of_handle(events::LibraryHandle handle, const SourceText& source) {
  const auto known = memory::library_handles::known_handle(handle);
  if (!known) return {};
  finding::Event event = creation(known->made, source);
  event.call = known->function;
  return event;
}

bool add_memory(finding::Operand& out, uintptr_t address, const SourceText& source) {
  if (const auto extent = memory::ownership::extent_at(address))
    out.extent = extent->bytes;
  else if (const auto block = memory::provenance::block_at(address))
    out.extent = block->bytes;
  return add_provenance(out, out.device, address, source);
}

void add_reach(finding::Operand& out, Device user, Device owner, uintptr_t address, const SourceText& source) {
  if (!user.is_cuda() || !owner.is_cuda() || user == owner) return;
  out.only_loaded = !memory::devices_in_use::has_computed(owner);
  if (const auto opened = memory::opened_access::but_not_to(user, owner, address))
    out.opened = creation(*opened, source);
}

finding::DeviceChange device_choice(const SourceText& source) {
  if (const auto choice = memory::device_history::last()) return change_of(*choice, source);
  finding::DeviceChange none;
  none.by_default = memory::device_history::seen_from_start();
  return none;
}

DeviceChanges capture_device_changes() {
  return {memory::device_history::kept(), stacks::capture_python(), stacks::call_site_of(stacks::capture())};
}

finding::List<finding::DeviceChange> device_changes(const DeviceChanges& taken, const SourceText& source) {
  finding::List<finding::DeviceChange> changes;
  for (const memory::device_history::Choice& choice : taken.choices) {
    // PyTorch's own guard, around the operation that is being refused.
    if (taken.statement != 0 && stacks::call_site_of(choice.stack) == taken.statement) continue;
    changes.push_back(change_of(choice, source));
  }
  return changes;
}

}  // namespace devtrace::evidence

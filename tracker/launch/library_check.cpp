#include "tracker/launch/library_check.h"

#include "tracker/base/thread_state.h"
#include "tracker/findings/findings.h"
#include "tracker/memory/devices_in_use.h"
#include "tracker/memory/library_descriptors.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/untracked_memory.h"

namespace devtrace::launch {
namespace {

using findings::MisplacedLibraryCall;
using memory::ownership::Table;

thread_local constinit int told_calls = 0;

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// Hot: visit(address, i) for the i-th argument, or for what it describes.
template <class Visit>
void for_each_address(const events::LibraryCall& call, const Visit& visit) {
  for (size_t i = 0; i < call.count; ++i) {
    const uintptr_t argument = number(call.arguments[i]);
    if (i >= 64 || !(call.descriptors >> i & 1)) {
      visit(argument, i);
      continue;
    }
    memory::library_descriptors::Descriptor described;
    if (!memory::library_descriptors::find(argument, described)) continue;
    for (const uint64_t address : described.addresses)
      if (address) visit(static_cast<uintptr_t>(address), i);
  }
}

// The devices that may be given all of the arguments.
Table::Devices devices_of(const events::LibraryCall& call, const Table& table) {
  if (call.descriptors == 0) return table.of_all(call.arguments, call.count);
  Table::Devices devices = Table::kAll;
  for_each_address(call, [&](uintptr_t address, size_t) { devices &= table.of(address); });
  return devices;
}

// Fills in the pointers into memory of devices, by exact owners. Whether one leads elsewhere.
bool resolve_owners(MisplacedLibraryCall& misplaced) {
  const events::LibraryCall& call = misplaced.call;
  bool elsewhere = false;
  for_each_address(call, [&](uintptr_t address, size_t i) {
    if (!memory::ownership::likely(address).known()) return;
    const auto extent = memory::ownership::extent_at(address);
    if (!extent || extent->memory != memory::ownership::Memory::device) return;
    const Device owner = memory::untracked_memory::owner_now(address, *extent, misplaced.device);
    if (!owner.known()) return;
    misplaced.pointers.push_back({address, owner, static_cast<uint16_t>(i + 1)});
    elsewhere = elsewhere || owner != misplaced.device;
  });
  return elsewhere;
}

bool looked_closer(const events::LibraryCall& call, MisplacedLibraryCall& misplaced) {
  const ReentrancyGuard inside;
  unsigned questions = memory::untracked_memory::kQuestions;
  for_each_address(call, [&](uintptr_t address, size_t) {
    if (address) memory::untracked_memory::learn(address, questions);
  });
  return !Table::has(devices_of(call, Table()), misplaced.device) && resolve_owners(misplaced);
}

[[gnu::noinline]] bool slow_path(const events::LibraryCall& call, Device device) noexcept {
  MisplacedLibraryCall misplaced{call, device, {}};
  try {
    if (!looked_closer(call, misplaced)) return false;
    findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost, the call goes on
    return false;
  }
  return true;
}

}  // namespace

events::HandleKnown check(const events::LibraryCall& call) noexcept {
  const auto handle = memory::library_handles::known_handle(call.handle);
  if (!handle) return events::HandleKnown::no;
  if (within_told_call()) return events::HandleKnown::yes;  // cuSOLVER calls cuBLAS, by a handle of its own
  const Table table;
  if (!table) return events::HandleKnown::yes;
  const Device device = handle->made.device;
  memory::devices_in_use::computes(device);
  Table::Devices devices = devices_of(call, table);
  if (!Table::has(devices, device)) {
    if (slow_path(call, device)) {
      ++told_calls;
      return events::HandleKnown::told;
    }
    devices = devices_of(call, table);  // what was not known has been asked for
  }
  if (!handle->used && devices != Table::kAll && Table::has(devices, device))
    memory::library_handles::note_use(call.handle);
  return events::HandleKnown::yes;
}

void told_call_returned() {
  --told_calls;
}

bool within_told_call() {
  return told_calls > 0;
}

void report_refused(const events::LibraryCall& call) noexcept {
  const auto handle = memory::library_handles::known_handle(call.handle);
  if (!handle) return;
  MisplacedLibraryCall misplaced{call, handle->made.device, {}, true};
  try {
    {
      const ReentrancyGuard inside;
      resolve_owners(misplaced);
    }
    findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost
  }
}

void report_refused_event(const events::LibraryCall& call, Device of_stream) noexcept {
  const auto event = memory::library_handles::known_handle(call.handle);
  if (!event || event->made.device == of_stream) return;
  MisplacedLibraryCall misplaced{call, event->made.device, {}, false, true};
  try {
    misplaced.pointers.push_back({number(call.arguments[0]), of_stream, 1});
    findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost
  }
}

}  // namespace devtrace::launch

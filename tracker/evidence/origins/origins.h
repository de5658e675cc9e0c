// Where memory and handles were made, how they came to where they lie, and who chose a thread's devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tracker/evidence/origins/stacks.h"
#include "tracker/interface/event_types.h"
#include "tracker/memory/device_history.h"
#include "tracker/memory/provenance.h"

namespace devtrace::evidence {

// Of the memory around `storage`, as far as that is known, which lies on `device`. Did a library's pool give out this
// very memory, so that the array's own statement is known?
bool add_provenance(finding::Provenance& out, std::string_view device, uintptr_t storage, const SourceText& source);

// Of what is no memory: where it was made, on which device, and who had chosen that.
finding::Event creation(const memory::provenance::Origin& origin, const SourceText& source);
// The same of a library's handle, a stream or an event, with the function that made it, if that was seen.
finding::Event creation_of_handle(events::LibraryHandle handle, const SourceText& source);

// The bytes of the memory around an address, and where it came from. True where a pool gave it out.
bool add_memory(finding::Operand& out, uintptr_t address, const SourceText& source);

// What a C++ program did so that others reach memory that `user` may not, and whether its owner has computed anything.
void add_reach(finding::Operand& out, Device user, Device owner, uintptr_t address, const SourceText& source);

// Who last made a device the calling thread's current one.
finding::DeviceChange device_choice(const SourceText& source);

// The calling thread's last changes of its current device, oldest first.
struct DeviceChanges {
  std::vector<memory::device_history::Choice> choices;
  stacks::StackId here = 0;       // the Python that the thread runs now
  stacks::StackId statement = 0;  // what it is doing, in whatever language
};
DeviceChanges capture_device_changes();
finding::List<finding::DeviceChange> device_changes(const DeviceChanges& taken, const SourceText& source);

}  // namespace devtrace::evidence

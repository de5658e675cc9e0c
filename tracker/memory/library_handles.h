// The handles of CUDA's mathematics libraries: on which device each was made, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tracker/interface/event_types.h"
#include "tracker/memory/provenance.h"

namespace devtrace::memory::library_handles {

struct Handle {
  events::LibraryHandle number = 0;
  provenance::Origin made;
  const char* function = nullptr;  // that made it
  uint64_t used = 0;               // 1: it has worked on memory of its own device
  uint64_t key() const { return number; }
};

void made(events::LibraryHandle handle, const char* function);
void gone(events::LibraryHandle handle);

// Hot: one look-up without a lock.
std::optional<Handle> known_handle(events::LibraryHandle handle);
void note_use(events::LibraryHandle handle);

// Other handles of the same library on a device. Slow, and allocates.
std::vector<Handle> others(const Handle& than, Device on);

// The only device on which live handles of a library are ("nccl": its communicators); unknown where there are none, or
// several. Slow.
Device only_device_of(std::string_view library);

// When devtrace is attached again: what came and went in between, nobody saw.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::library_handles

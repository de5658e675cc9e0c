// Where the program opened memory to devices: a pair of them, or a range of mapped memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tracker/memory/provenance.h"

namespace devtrace::memory::opened_access {

// By the calling thread, now. Of a pair `device` may reach the memory of `peer`.
void of_pair(int device, int peer);
void of_range(uintptr_t address, size_t bytes);

// What opened the memory at `address`, of `owner`, to others than `user`: its range, or else the pair the other way
// round. Slow.
std::optional<provenance::Origin> but_not_to(Device user, Device owner, uintptr_t address);

// When devtrace is attached again: what was opened in between, nobody saw.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::opened_access

// Memory that a kernel may reach by addresses which lie in memory: tables of pointers, descriptors, structures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/model/memory/memory.h"

namespace devtrace::simulate {

// Bytes from an address to the end of its block.
size_t rest_of_block(uintptr_t address, const Allocation& allocation);

// Addresses of live allocations that are found at the given addresses, and at those. Not the given ones; sorted.
std::vector<uintptr_t> reached_from(const std::vector<uintptr_t>& addresses);

}  // namespace devtrace::simulate

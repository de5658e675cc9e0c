#pragma once

#include <cstdint>

namespace devtrace::interpose {

// Tells of memory that another process allocated and this one has opened at the address: all of that allocation.
void emit_opened(uint64_t address);

}  // namespace devtrace::interpose

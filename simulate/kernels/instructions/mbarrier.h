// What copies do to barriers in shared memory that count bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {

// A step: so many bytes have come that the barrier of that operand counts.
bool complete_bytes(Decoder& d, size_t barrier, Slot bytes);
// The same at once, of the barrier at an address in shared memory. False: it is a fault.
bool arrive_with_bytes(Machine& m, uint32_t lane, uint64_t address, uint32_t bytes);

}  // namespace devtrace::simulate::kernels

// Sums and the like over one element of each rank, in the types that NCCL has.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <cstddef>
#include <vector>

namespace devtrace::simulate::nccl {

// Bytes of an element; 0: no type of NCCL's.
size_t size_of(ncclDataType_t type);

// Whether reduce() knows them. NCCL's scaled sums are not simulated, nor sums of 8-bit floating point.
bool can_reduce(ncclDataType_t type, ncclRedOp_t op);

// out[i] = op over parts[…][i]; `out` may be one of the parts.
void reduce(const std::vector<const void*>& parts, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op);

}  // namespace devtrace::simulate::nccl

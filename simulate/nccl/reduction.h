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
const char* name_of(ncclDataType_t type);
bool is_floating(ncclDataType_t type);

bool can_reduce(ncclDataType_t type, ncclRedOp_t op);

// out[i] = op over parts[…][i], in the parts' order; `out` may be the first one. Sums of less than 32 bits are taken in
// float.
void reduce(const std::vector<const void*>& parts, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op);

// What a rank multiplies its part with before a sum: one element, in memory that is read when the part is, or here.
struct Scale {
  bool scales = false;
  const void* at = nullptr;
  alignas(8) unsigned char value[8] = {};
};
void scale(void* part, size_t count, ncclDataType_t type, const Scale& scale);

}  // namespace devtrace::simulate::nccl

// What is known here of memory that nobody computed (values/uncomputed.h): the blocks of PyTorch's caching allocator,
// and which operators have to be followed.
#pragma once

#include <ATen/core/ivalue.h>

namespace devtrace::simulate::values {

// Once, with the stub driver there.
void follow_uncomputed();

// Whether any of the arguments is or holds a tensor that nobody computed, or one that may be.
bool has_uncomputed(at::ArrayRef<c10::IValue> arguments);

}  // namespace devtrace::simulate::values

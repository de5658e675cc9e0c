// What is known here of memory that nobody computed (values/uncomputed.h): the blocks of PyTorch's caching allocator,
// and which operators have to be followed.
#pragma once

#include <ATen/core/ivalue.h>

namespace devtrace::simulate::values {

// Once, with the stub driver there.
void follow_uncomputed();

// Whether any of the arguments is or holds a tensor that nobody computed, or one that may be.
bool has_uncomputed(at::ArrayRef<c10::IValue> arguments);

// After a stream has done an operator's work: what it wrote is as little computed as what it read.
void follow_uncomputed(at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results);

}  // namespace devtrace::simulate::values

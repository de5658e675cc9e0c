// What is known here of memory that nobody computed (values/uncomputed.h): the blocks of PyTorch's caching allocator,
// and which operators have to be followed.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace devtrace::simulate::values {

// Once, with the stub driver there.
void follow_uncomputed();

// An operator that a stream computes, whose operands' marks are known when the stream comes to it.
class Followed {
 public:
  Followed(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments);
  // What it has written is as little computed as what it has read. Of tensors without a claim on their memory.
  void follow(at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results) const;

 private:
  std::vector<bool> read_;  // by argument
  bool overwrites_;         // whatever was there
};

// Whether any of the arguments is or holds a tensor that nobody computed, or one that may be.
bool has_uncomputed(at::ArrayRef<c10::IValue> arguments);

}  // namespace devtrace::simulate::values

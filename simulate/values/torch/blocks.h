// What is known here of memory that nobody computed (values/uncomputed.h): the blocks of PyTorch's caching allocator,
// and which operators have to be followed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simulate/values/uncomputed.h"

namespace devtrace::simulate::values {

// Once, with the stub driver there.
void follow_uncomputed();
// What it knows; null without it.
const UncomputedForTorch* uncomputed_memory();
// From now on what the allocator gives out anew is nobody's result.
void watch_blocks();

// From the first byte of a strided tensor to its last.
struct Span {
  explicit Span(const at::Tensor& tensor);
  uintptr_t begin = 0;
  size_t size = 0;
};
// Of a dense tensor on a device, or of its alias: whether somebody should have computed some of it.
bool is_marked(const at::Tensor& tensor);
// 0: it was computed.
void set_source(const at::Tensor& tensor, Source source);

// Whether an operator that writes to its arguments forgets what was there.
bool overwrites(const std::string& name);

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

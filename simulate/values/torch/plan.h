// How one operator is computed: by a kernel of the CPU's, or in a way of its own.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulate/values/torch/attention.h"
#include "simulate/values/torch/special.h"
#include "simulate/values/torch/unknown.h"

namespace devtrace::simulate::values {

// What is done for an operator, in numbers that python/native.py knows.
enum How {
  kGate,   // nothing, but that it gets past Python inside of another operator
  kPlain,  // it is computed
  kNestedToo,
  kGrows,      // the size of its result depends on values, which the real kernel does not see
  kByNumbers,  // index_put: computed where its indices are numbers, and no masks, and it writes to a GPU
  kRandom,     // it is computed with numbers drawn by the CUDA generator's place
};

struct Plan {
  c10::SafeKernelFunction real, python;
  std::optional<c10::SafeKernelFunction> cpu = {};  // none: only python/ computes it
  std::optional<c10::SafeKernelFunction> out = {};  // computes the same into a given tensor, its last argument; of an
                                                    // operator with out=: the same without
  const c10::OperatorKernel* by = nullptr;          // whom python/ calls as the real kernel, where it is computed here
  size_t arguments = 0;
  std::vector<bool> results = {};  // of each: whether it is an argument that it wrote to
  bool is_single = false;          // one tensor
  size_t pinned = SIZE_MAX;        // which of the arguments is pin_memory
  bool writes = false;             // the single result is an argument that it wrote to
  bool is_out = false;             // … the last one, out=
  bool is_sparse = false;          // its kernels for operands that are
  bool is_pointwise = false;
  bool slow_in_half = false;
  bool copies = false;      // copy_
  bool zeroes = false;      // zero_
  bool nested_too = false;  // the real kernel looks at values that nested operators compute
  bool again = false;       // it may do so, and if it fails it is tried again with those
  bool grows = false;
  bool by_numbers = false;
  std::optional<Attention> attention = {};
  Special special = nullptr;
  size_t generator = SIZE_MAX;  // which of the arguments is what it draws from; it may be the one behind the last
  unknown::Access access = {};
};

// `key`: CUDA or SparseCUDA. `again`: whether a real kernel that fails may be tried again. `out_overload`: see
// devtrace_values_after.
Plan plan_of(const c10::OperatorHandle& op, c10::DispatchKey key, How how, bool again, const char* out_overload);

// What makes device memory zero without the host's, see model/memory/arena.h; null: nobody.
using ClearFunction = bool (*)(void* address, size_t size);
void clear_memory_by(ClearFunction function);
// False: it does not, or too little memory for that.
bool clear_memory(void* address, size_t size);

// Whether there is a way besides python/'s.
bool is_computed_here(const c10::OperatorHandle& op, How how);

// Judged before the real kernel has run.
bool fits(const Plan& plan, at::ArrayRef<c10::IValue> arguments);

// Into `results`, the real kernel's. `stack`: the arguments, which are used up. `left`: values of another size than
// their results; none are expected where it is null. False: python/ has to do it.
using Left = std::vector<std::pair<size_t, at::Tensor>>;
bool compute(const c10::OperatorHandle& op, const Plan& plan, torch::jit::Stack* stack,
             at::ArrayRef<c10::IValue> results, Left* left = nullptr);

}  // namespace devtrace::simulate::values

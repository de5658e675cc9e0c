// --keep-going: an operator that PyTorch refuses for its devices is computed as if its operands lay on one.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <optional>

namespace devtrace::simulate::values {

// Whether DEVTRACE_SIM_KEEP_GOING asks for it.
bool keeps_going();

// Whether autograd has called the operator, for a gradient.
bool in_backward();

// Brings the tensors of a call together: to what it writes into, else to the GPU where most of their bytes lie. That
// device; nothing where they lie on one already, or what is written to lies on several. May throw what a copy throws.
std::optional<c10::Device> bring_together(const c10::FunctionSchema& schema, torch::jit::Stack* arguments);

}  // namespace devtrace::simulate::values

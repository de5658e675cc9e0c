// Operators whose effect is a stream's work (--async): what is kept of a call until then.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#include "simulate/values/asynchronous.h"

namespace devtrace::simulate::values {

// Tensors without a claim on their memory: on hardware, too, a kernel has only its address.
struct Kept {
  torch::jit::Stack arguments, results;
};

// Computes with arguments, for results; what a call and its probe have in common. False: it cannot.
using Compute = std::function<bool(torch::jit::Stack* arguments, at::ArrayRef<c10::IValue> results)>;

// Hands the effect of a call, whose real kernel has run, to its stream. False: it has to be computed now, with the
// streams' work done. `name`: of the operator.
bool compute_later(RealKernel* real, const c10::FunctionSchema& schema, const std::string& name,
                   at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results, const Compute& compute);

}  // namespace devtrace::simulate::values

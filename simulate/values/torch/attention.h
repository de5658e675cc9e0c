// Attention: CUDA's operators have other names than the CPU's. Without dropout the CPU's own kernel computes it, which
// is what the same program would use there. As in python/specials.py, which has what does not fit.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <optional>

#include "simulate/values/torch/special.h"

namespace devtrace::simulate::values {

// Where an operator has its arguments. query, key and value come first.
struct Attention {
  size_t dropout, causal, scale;
  std::optional<size_t> bias;
  size_t state;  // the result that the backward finds dropout's seed in

  // Whether compute() may be asked, judged before the real kernel has run.
  bool fits(at::ArrayRef<c10::IValue> arguments) const;
  bool drops(at::ArrayRef<c10::IValue> arguments) const { return arguments[dropout].toDouble() != 0.0; }
  // `cpu`: the kernel of cpu_attention(). `stack`: converted arguments, and behind them what dropout draws from.
  // `results`: the real kernel's, of which the first is the output and the second the logarithms of the sums.
  bool compute(const c10::SafeKernelFunction& cpu, torch::jit::Stack* stack, at::ArrayRef<c10::IValue> results) const;
};

std::optional<Attention> attention_of(const c10::OperatorHandle& op);
// Throws where PyTorch has no such operator.
const c10::OperatorHandle& cpu_attention();
// Null for other operators.
Special attention_backward(const c10::OperatorName& name);

}  // namespace devtrace::simulate::values

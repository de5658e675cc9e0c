// Attention: CUDA's operators have other names than the CPU's. Without dropout the CPU's own kernel computes it, which
// is what the same program would use there; the rest is python/specials.py's.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <optional>

namespace devtrace::simulate::values {

// Where an operator has its arguments. query, key and value come first.
struct Attention {
  size_t dropout, causal, scale;
  std::optional<size_t> bias;

  // Whether compute() may be asked, judged before the real kernel has run.
  bool fits(at::ArrayRef<c10::IValue> arguments) const;
  // `cpu`: the kernel of cpu_attention(); `stack`: converted arguments; `results`: the real kernel's, of which the
  // first is the output and the second the logarithms of the sums.
  bool compute(const c10::SafeKernelFunction& cpu, torch::jit::Stack* stack, at::ArrayRef<c10::IValue> results) const;
};

std::optional<Attention> attention_of(const c10::OperatorHandle& op);
// Throws where PyTorch has no such operator.
const c10::OperatorHandle& cpu_attention();

}  // namespace devtrace::simulate::values

// Operators that are computed later than they are called, as a stream's work (--async) or at a graph's replay: what is
// kept of a call until then.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "simulate/values/asynchronous.h"

namespace devtrace::simulate::values {

// Tensors without a claim on their memory: on hardware, too, a kernel has only its address.
struct KeptCall {
  torch::jit::Stack arguments, results;
};

// Computes with arguments, for results; what a call and its probe have in common. False: it cannot.
using Compute = std::function<bool(torch::jit::Stack* arguments, at::ArrayRef<c10::IValue> results)>;

// What becomes of the host's tensors among the arguments: copied, as a stream reads them before the call returns,
// unless they are pinned. kShared: the same, with a claim on their memory.
enum class HostTensors { kCopied, kShared };

// Nothing where a tensor does not fit.
std::optional<KeptCall> keep(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments,
                             at::ArrayRef<c10::IValue> results, HostTensors host);

// Whether the CPU's kernels compute such a call, so that nothing but a value can be in the way of it later. Tried with
// zeros, once for each kind of arguments.
bool is_computable(const std::string& name, const KeptCall& kept, const Compute& compute);

// The program's warnings were the real kernel's.
class Silent final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// The modes of whoever happens to do the work are not the operator's.
class PlainDispatch {
 public:
  PlainDispatch();
  ~PlainDispatch();
  PlainDispatch(const PlainDispatch&) = delete;
  PlainDispatch& operator=(const PlainDispatch&) = delete;

 private:
  const c10::impl::LocalDispatchKeySet before_;
  Silent silent_;
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

// Hands the effect of a call, whose real kernel has run, to its stream. False: it has to be computed now, with the
// streams' work done. `name`: of the operator.
bool compute_later(RealKernel* real, const c10::FunctionSchema& schema, const std::string& name,
                   at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results, const Compute& compute);

}  // namespace devtrace::simulate::values

// The quick way to true values: kernels in C++ in front of those of python/, for operators with one dense result and
// nothing special about them. What does not fit is left to python/, before or after the real kernel has run.
//
// Compiled against one PyTorch's headers, so for that one only: python/native.py opens this library in no other.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/values/asynchronous.h"
#include "simulate/values/torch/alias.h"
#include "simulate/values/torch/attention.h"
#include "simulate/values/torch/blocks.h"
#include "simulate/values/torch/later.h"
#include "simulate/values/unwatched.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

using ThreadFunction = Thread* (*)();
ThreadFunction g_thread = nullptr;
using AsynchronousFunction = const Asynchronous* (*)();
AsynchronousFunction g_asynchronous = nullptr;
std::atomic<bool> g_recording{false};  // a CUDA graph may be being captured

// What a real kernel has made, on its way to the Python kernel, which believes to call the real one itself.
struct Made {
  const c10::OperatorKernel* by = nullptr;
  Stack results;
};
thread_local Made t_made;

// In front of the real kernel, for python/ to call as such.
class Real final : public c10::OperatorKernel {
 public:
  explicit Real(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}

  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    if (t_made.by != this) return kernel_.callBoxed(op, keys, stack);
    torch::jit::drop(*stack, op.schema().arguments().size());
    for (IValue& each : t_made.results) stack->push_back(std::move(each));
    t_made = {};
  }

 private:
  const c10::SafeKernelFunction kernel_;
};

// What errors say for which a real kernel is not tried again.
std::vector<std::string>& not_for_values() {
  static auto* texts = new std::vector<std::string>;
  return *texts;
}

bool may_be_for_values(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return std::none_of(not_for_values().begin(), not_for_values().end(),
                      [&](const std::string& each) { return text.find(each) != std::string::npos; });
}

// Real kernels hand each other numbers as tensors on the device, marked as numbers, which PyTorch cannot give to
// Python.
void no_numbers_of_the_device(at::ArrayRef<IValue> arguments) {
  for (const IValue& each : arguments)
    if (each.isTensor() && each.toTensor().defined() && each.toTensor().is_cuda() &&
        each.toTensor().unsafeGetTensorImpl()->is_wrapped_number())
      each.toTensor().unsafeGetTensorImpl()->set_wrapped_number(false);
}

// How one operator is computed.
struct Plan {
  c10::SafeKernelFunction real, python;
  std::optional<c10::SafeKernelFunction> cpu = {};  // none: only python/ computes it
  std::optional<c10::SafeKernelFunction> out = {};  // computes the same into a given tensor, its last argument; of an
                                                    // operator with out=: the same without
  const c10::OperatorKernel* by = nullptr;          // Real, where there is a `cpu`
  size_t arguments = 0, results = 1;
  size_t pinned = SIZE_MAX;  // which of them is pin_memory
  bool writes = false;       // the result is an argument that it wrote to
  bool is_out = false;       // … the last one, out=
  bool is_pointwise = false;
  bool slow_in_half = false;
  bool copies = false;      // copy_
  bool nested_too = false;  // the real kernel looks at values that nested operators compute
  bool again = false;       // it may do so, and if it fails it is tried again with those
  std::optional<Attention> attention = {};
};

// See SLOW in python/wider.py: halves are multiplied in float.
bool is_slow_in_half(const c10::OperatorName& name) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::_addmm_activation", "aten::convolution"};
  return std::find(kNames.begin(), kNames.end(), name.name) != kNames.end() && name.overload_name.empty();
}

// Whether any of the arguments was half.
bool halves_to_float(Stack* stack) {
  bool any = false;
  for (IValue& each : *stack) {
    if (!each.isTensor() || !each.toTensor().defined() || each.toTensor().scalar_type() != at::kHalf) continue;
    each = IValue(each.toTensor().to(at::kFloat));
    any = true;
  }
  return any;
}

// `stack`: the arguments; `result`: of the real kernel. False when python/ has to do it.
bool compute_one(const OperatorHandle& op, const Plan& plan, Stack* stack, const at::Tensor& result) {
  if (plan.pinned < stack->size()) (*stack)[plan.pinned] = IValue();
  if (plan.writes) {
    const bool apart = plan.is_out && !(plan.is_pointwise && stack->back().toTensor().is_contiguous());
    if (!apart) {
      plan.cpu->callBoxed(op, kCpu, stack);
      return true;
    }
    // Other kernels of the CPU's forget an out='s strides, or make it larger for a while, for which an alias has no
    // room.
    const at::Tensor out = stack->back().toTensor();
    if (!plan.out) return false;
    stack->pop_back();
    plan.out->callBoxed(plan.out->opHandle(), kCpu, stack);
    const at::Tensor& value = stack->back().toTensor();
    if (!value.defined() || value.layout() != c10::kStrided || value.sizes() != out.sizes()) return false;
    put(out, value);
    return true;
  }
  const std::optional<at::Tensor> place = result.is_cuda() ? alias(result) : result;
  if (!place) return false;
  const bool in_float = plan.slow_in_half && halves_to_float(stack);
  if (plan.out && !in_float) {
    stack->emplace_back(*place);
    plan.out->callBoxed(plan.out->opHandle(), kCpu, stack);
    return place->sizes() == result.sizes();
  }
  plan.cpu->callBoxed(op, kCpu, stack);
  const at::Tensor& value = stack->back().toTensor();
  if (!value.defined() || value.layout() != c10::kStrided || value.sizes() != place->sizes()) return false;
  put(*place, value);
  return true;
}

bool compute(const OperatorHandle& op, const Plan& plan, Stack* stack, at::ArrayRef<IValue> results) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  for (IValue& each : *stack)
    if (!convert(&each)) return false;
  if (plan.attention) return plan.attention->compute(*plan.cpu, stack, results);
  return results[0].isTensor() && results[0].toTensor().defined() &&
         compute_one(op, plan, stack, results[0].toTensor());
}

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(Plan plan) : plan_(std::move(plan)) {}

  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    Thread& thread = *g_thread();
    if (thread.copies_suppressed > 0)
      return plan_.real.callBoxed(op, keys, stack);  // inside one that is computed as a whole
    const auto given = torch::jit::last(*stack, plan_.arguments);
    no_numbers_of_the_device(given);
    const bool fits = plan_.cpu && (!plan_.attention || plan_.attention->fits(given));
    if (!fits || g_recording.load(std::memory_order_relaxed) || has_uncomputed(given))
      return plan_.python.callBoxed(op, keys, stack);
    Stack arguments(given.begin(), given.end());
    const size_t below = stack->size() - plan_.arguments;
    const Asynchronous* const asynchronous = g_asynchronous();
    RealKernel real(asynchronous, plan_.copies);
    bool again = false;
    try {
      const OperatorScope scope(thread, !plan_.nested_too);
      plan_.real.callBoxed(op, keys, stack);
    } catch (const c10::Error& error) {
      if (!plan_.again || !may_be_for_values(error)) throw;
      stack->resize(below);
      stack->insert(stack->end(), arguments.begin(), arguments.end());
      again = real_again(op, thread, keys, stack);
      if (!again) throw;
    }
    const auto results = torch::jit::last(*stack, plan_.results);
    if (asynchronous) {
      if (!again && !plan_.nested_too && later(op, thread, &real, arguments, results)) return;
      real.end(nullptr, nullptr, nullptr);
    }
    if (computed(op, thread, arguments, results)) return;
    Made made = {plan_.by, Stack(results.begin(), results.end())};
    torch::jit::drop(*stack, plan_.results);
    stack->insert(stack->end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
    t_made = std::move(made);
    plan_.python.callBoxed(op, keys, stack);
  }

 private:
  // See python/exceptions.py: with its nested operators computed.
  bool real_again(const OperatorHandle& op, Thread& thread, DispatchKeySet keys, Stack* stack) {
    try {
      const OperatorScope scope(thread, false);
      plan_.real.callBoxed(op, keys, stack);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  bool computed(const OperatorHandle& op, Thread& thread, const Stack& arguments, at::ArrayRef<IValue> results) {
    const OperatorScope scope(thread);
    const Unwatched unwatched;
    try {
      Stack stack;
      stack.reserve(arguments.size() + 1);
      stack = arguments;
      return compute(op, plan_, &stack, results);
    } catch (const std::exception&) {
      // python/ finds out once more, and what to do about it: another type, or an error that is the program's.
      return false;
    }
  }

  // With --async: whether a stream will compute it.
  bool later(const OperatorHandle& op, Thread& thread, RealKernel* real, const Stack& arguments,
             at::ArrayRef<IValue> results) {
    const OperatorScope scope(thread);
    const Unwatched unwatched;
    const auto compute_in_stream = [this, op](Stack* given, at::ArrayRef<IValue> into) {
      const OperatorScope within(*g_thread());
      const Unwatched not_watched;
      return compute(op, plan_, given, into);
    };
    return compute_later(real, op.schema(), c10::toString(op.operator_name()), arguments, results, compute_in_stream);
  }

  const Plan plan_;
};

// Overriding kernels is the point.
class Silent final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

template <typename Kernel>
void put_in_front(const OperatorHandle& op, std::unique_ptr<Kernel> kernel) {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  // Lasts as long as the process.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), DispatchKey::CUDA, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)), std::nullopt,
      nullptr, "devtrace"));
}

// What is done for an operator here, in numbers that python/native.py knows.
enum How {
  kGate,   // nothing, but that it gets past Python inside of another operator
  kPlain,  // it is computed
  kNestedToo,
};

// An operator between devtrace_values_before and devtrace_values_after.
struct Begun {
  OperatorHandle op;
  c10::SafeKernelFunction real;
  How how;
  const c10::OperatorKernel* by = nullptr;
};

std::unique_ptr<Begun> begin(const char* name, const char* overload, How how) {
  const std::optional<OperatorHandle> op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op) return nullptr;
  auto begun = std::make_unique<Begun>(Begun{*op, op->getComputedKernelForDispatchKey(DispatchKey::CUDA), how});
  if (how != kGate || attention_of(*op)) {
    auto real = std::make_unique<Real>(begun->real);
    begun->by = real.get();
    put_in_front(*op, std::move(real));
  }
  return begun;
}

void finish(const Begun& begun, const char* out_overload, bool again) {
  const OperatorHandle& op = begun.op;
  Plan plan = {.real = begun.real, .python = op.getComputedKernelForDispatchKey(DispatchKey::CUDA)};
  const c10::FunctionSchema& schema = op.schema();
  plan.arguments = schema.arguments().size();
  if (begun.by) {
    plan.by = begun.by;
    plan.results = schema.returns().size();
    plan.nested_too = begun.how == kNestedToo;
    plan.again = again && !plan.nested_too;
    plan.attention = attention_of(op);
    plan.cpu = (plan.attention ? cpu_attention() : op).getComputedKernelForDispatchKey(DispatchKey::CPU);
    const c10::AliasInfo* alias = schema.returns()[0].alias_info();
    plan.writes = alias && alias->isWrite();
    plan.is_out = plan.writes && schema.arguments().back().is_out();
    plan.slow_in_half = is_slow_in_half(op.operator_name());
    plan.copies = op.operator_name().name == "aten::copy_";
    plan.is_pointwise = op.hasTag(at::Tag::pointwise);
    if (const auto at = schema.argumentIndexWithName("pin_memory")) plan.pinned = static_cast<size_t>(*at);
    const auto out = c10::Dispatcher::singleton().findSchema({op.operator_name().name, out_overload});
    const size_t others = plan.is_out ? plan.arguments - 1 : plan.arguments + 1;
    if (*out_overload && out && out->schema().arguments().size() == others &&
        out->schema().arguments().back().is_out() != plan.is_out)
      plan.out = out->getComputedKernelForDispatchKey(DispatchKey::CPU);
  }
  put_in_front(op, std::make_unique<Kernel>(std::move(plan)));
}

}  // namespace
}  // namespace devtrace::simulate::values

using namespace devtrace::simulate::values;

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Before the others. `lines`: NOT_FOR_VALUES of python/exceptions.py, a line each. 0: the stub driver is not there.
EXPORTED int devtrace_values_start(const char* lines) {
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) not_for_values().push_back(line);
  g_thread = reinterpret_cast<ThreadFunction>(dlsym(RTLD_DEFAULT, "devtrace_sim_values_thread"));
  g_asynchronous = reinterpret_cast<AsynchronousFunction>(dlsym(RTLD_DEFAULT, "devtrace_sim_asynchronous"));
  if (!g_thread || !g_asynchronous) return 0;
  follow_uncomputed();
  return 1;
}

// Each operator: this, then python/ takes the real kernel and registers its own, then devtrace_values_after with what
// this returned. Null: python/ is alone with it.
EXPORTED void* devtrace_values_before(const char* name, const char* overload, int how) {
  try {
    return begin(name, overload, static_cast<How>(how)).release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

// `out_overload`: the one that computes the same into a given tensor, or, of one with out=, without; empty: none.
// `again`: a real kernel that fails may be tried again.
EXPORTED void devtrace_values_after(void* begun, const char* out_overload, int again) {
  const std::unique_ptr<Begun> own(static_cast<Begun*>(begun));
  try {
    finish(*own, out_overload, again != 0);
  } catch (const std::exception&) {
    // python/ is alone with it.
  }
}

// While a graph is captured every operator goes to python/, which keeps it for the replays.
EXPORTED void devtrace_values_record(int on) {
  g_recording = on != 0;
}

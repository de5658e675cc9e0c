// The quick way to true values: kernels in C++ in front of those of python/, for operators with dense results and
// nothing special about them. What does not fit is left to python/, before or after the real kernel has run.
//
// Compiled against one PyTorch's headers, so for that one only: python/native.py opens this library in no other.
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "simulate/values/asynchronous.h"
#include "simulate/values/torch/alias.h"
#include "simulate/values/torch/blocks.h"
#include "simulate/values/torch/captured.h"
#include "simulate/values/torch/later.h"
#include "simulate/values/torch/mixed.h"
#include "simulate/values/torch/plan.h"
#include "simulate/values/torch/random.h"
#include "simulate/values/torch/unknown.h"
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
std::atomic<bool> g_went_on{false};    // --keep-going: something was refused, and computed

// What a real kernel has made, or why it failed, on its way to the Python kernel, which believes to call the real one
// itself.
struct Made {
  const c10::OperatorKernel* by = nullptr;
  Stack results;
  std::exception_ptr error = {};
  std::optional<Draw> draw = {};  // before the call until python/ has asked
};
thread_local Made t_made;

// A call that a graph captures, while python/ has it.
struct Capturing {
  const c10::OperatorKernel* by = nullptr;
  const OperatorHandle* op = nullptr;
  const Stack* arguments = nullptr;
  Compute compute;
  bool is_tried = true;  // once with zeros, before it is kept
  Stack results = {};
};
thread_local Capturing* t_capturing = nullptr;

// In front of the real kernel, for python/ to call as such.
class Real final : public c10::OperatorKernel {
 public:
  explicit Real(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}

  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    if (t_made.by != this) {
      kernel_.callBoxed(op, keys, stack);
      if (t_capturing && t_capturing->by == this) {
        const auto results = torch::jit::last(*stack, op.schema().returns().size());
        t_capturing->results.assign(results.begin(), results.end());
      }
      return;
    }
    Made made = std::exchange(t_made, {});
    if (made.draw) made.draw->go_on();
    if (made.error) std::rethrow_exception(made.error);
    torch::jit::drop(*stack, op.schema().arguments().size());
    stack->insert(stack->end(), made.results.begin(), made.results.end());
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

class PlannedKernel final : public c10::OperatorKernel {
 public:
  explicit PlannedKernel(Plan plan) : plan_(std::move(plan)) {}

  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    if (!keeps_going() || plan_.copies || g_thread()->copies_suppressed > 0) return run(op, keys, stack);
    const auto given = torch::jit::last(*stack, plan_.arguments);
    Stack arguments(given.begin(), given.end());
    const size_t below = stack->size() - plan_.arguments;
    std::optional<c10::Device> device;
    // A gradient of what was brought together is not another fault.
    if (g_went_on && in_backward()) device = together(op, &arguments);
    try {
      if (!device) return run(op, keys, stack);
    } catch (const std::exception&) {
      device = together(op, &arguments);
      if (!device) throw;
      g_went_on = true;
    }
    stack->resize(below);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
    device->is_cuda() ? run(op, keys, stack) : op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  }

 private:
  void run(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    Thread& thread = *g_thread();
    if (thread.copies_suppressed > 0)
      return plan_.real.callBoxed(op, keys, stack);  // inside one that is computed as a whole
    const auto given = torch::jit::last(*stack, plan_.arguments);
    no_numbers_of_the_device(given);
    const bool by_us = fits(plan_, given);
    if (by_us && g_recording.load(std::memory_order_relaxed)) return capture(op, keys, stack, given);
    if (unknown::is_on() && unknown::leaves(plan_, given)) return leave(op, thread, keys, stack);
    if (!by_us || has_uncomputed(given)) return plan_.python.callBoxed(op, keys, stack);
    Stack arguments(given.begin(), given.end());
    const size_t below = stack->size() - plan_.arguments;
    const auto as_given = [&] {
      stack->resize(below);
      stack->insert(stack->end(), arguments.begin(), arguments.end());
    };
    std::optional<Draw> draw;
    if (draws(arguments) && !(draw = Draw::of(arguments, plan_.generator)))
      return plan_.python.callBoxed(op, keys, stack);
    const Asynchronous* const asynchronous = g_asynchronous();
    RealKernel real(asynchronous, plan_.copies);
    bool again = false;
    try {
      again = call_real(op, thread, keys, stack, as_given);
    } catch (const c10::Error&) {
      if (!plan_.grows) throw;
      as_given();
      real.end(nullptr, nullptr, nullptr);
      return by_python(op, keys, stack, {plan_.by, {}, std::current_exception()});
    }
    const auto results = torch::jit::last(*stack, plan_.results.size());
    if (asynchronous) {
      const bool left = unknown::is_on() && unknown::leaves_results(plan_, results);
      if (!again && !left && is_for_later() && later(op, thread, &real, arguments, results)) return;
      real.end(nullptr, nullptr, nullptr);
    }
    Left left;
    // What a stream has done meanwhile, as with what another rank gave, may be computed by nobody.
    if (!has_uncomputed(arguments) && computed(op, thread, arguments, results, draw, plan_.grows ? &left : nullptr))
      return allocate(thread, left, stack);
    if (draw) draw->go_back();
    Made made = {plan_.by, Stack(results.begin(), results.end()), {}, std::move(draw)};
    as_given();
    by_python(op, keys, stack, std::move(made));
  }

  // Its results are unknown (--values small).
  void leave(const OperatorHandle& op, Thread& thread, DispatchKeySet keys, Stack* stack) {
    const auto given = torch::jit::last(*stack, plan_.arguments);
    const Stack arguments(given.begin(), given.end());
    const size_t below = stack->size() - plan_.arguments;
    RealKernel real(g_asynchronous(), plan_.copies);
    call_real(op, thread, keys, stack, [&] {
      stack->resize(below);
      stack->insert(stack->end(), arguments.begin(), arguments.end());
    });
    real.end(nullptr, nullptr, nullptr);
    const OperatorScope scope(thread);
    const Unwatched unwatched;
    unknown::leave(op, plan_, arguments, torch::jit::last(*stack, plan_.results.size()));
  }

  // The copies are not the program's.
  static std::optional<c10::Device> together(const OperatorHandle& op, Stack* arguments) {
    const OperatorScope scope(*g_thread(), false);
    const Unwatched unwatched;
    return bring_together(op.schema(), arguments);
  }

  // python/ keeps the order of what is captured, and asks for the call that it is in.
  void capture(const OperatorHandle& op, DispatchKeySet keys, Stack* stack, at::ArrayRef<IValue> given) {
    const Stack arguments(given.begin(), given.end());
    const bool left = unknown::is_on() && unknown::leaves(plan_, arguments);
    Capturing capturing = {plan_.by, &op, &arguments, compute_of(op), !left};
    const bool one_call = !plan_.grows && !plan_.nested_too && !draws(arguments);
    const auto before = std::exchange(t_capturing, one_call ? &capturing : nullptr);
    const auto restore = c10::make_scope_exit([before] { t_capturing = before; });
    plan_.python.callBoxed(op, keys, stack);
  }

  Compute compute_of(const OperatorHandle& op) const {
    return [this, op](Stack* given, at::ArrayRef<IValue> into) {
      const OperatorScope within(*g_thread());
      const Unwatched not_watched;
      return compute_or_leave(op, given, into, nullptr);
    };
  }

  bool compute_or_leave(const OperatorHandle& op, Stack* given, at::ArrayRef<IValue> results, Left* left) const {
    if (unknown::is_on() && (unknown::leaves(plan_, *given) || unknown::leaves_results(plan_, results))) {
      unknown::leave(op, plan_, *given, results);
      return true;
    }
    const bool done = compute(op, plan_, given, results, left);
    if (done && unknown::is_on()) unknown::is_known(results);
    return done;
  }

  // True: it was tried again, with its nested operators computed, for which `as_given` puts the arguments back.
  template <class AsGiven>
  bool call_real(const OperatorHandle& op, Thread& thread, DispatchKeySet keys, Stack* stack, const AsGiven& as_given) {
    try {
      const OperatorScope scope(thread, !plan_.nested_too);
      plan_.real.callBoxed(op, keys, stack);
      return false;
    } catch (const c10::Error& error) {
      if (plan_.grows || !plan_.again || !may_be_for_values(error)) throw;
      as_given();
      if (!real_again(op, thread, keys, stack)) throw;
      return true;
    }
  }

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

  // python/ finds what the real kernel has done already.
  void by_python(const OperatorHandle& op, DispatchKeySet keys, Stack* stack, Made made) {
    // Left there by a Python kernel that failed before it asked, it would be the next call's.
    const auto forget = c10::make_scope_exit([] { t_made = {}; });
    t_made = std::move(made);
    plan_.python.callBoxed(op, keys, stack);
  }

  // Whether a stream may compute it (--async): the size of what it makes does not depend on values, and it is one
  // tensor.
  bool is_for_later() const {
    return plan_.results.size() == 1 && !plan_.nested_too && !plan_.grows && plan_.generator == SIZE_MAX;
  }

  bool draws(at::ArrayRef<IValue> arguments) const {
    return plan_.generator != SIZE_MAX && (!plan_.attention || plan_.attention->drops(arguments));
  }

  // Results whose size only the CPU knew. Where the operator was called, so that blocks are seen to be the program's.
  void allocate(Thread& thread, const Left& left, Stack* stack) {
    for (const auto& [at, value] : left) {
      IValue& result = (*stack)[stack->size() - plan_.results.size() + at];
      const at::TensorOptions options = value.options().device(result.toTensor().device());
      at::Tensor made = at::empty_strided(value.sizes(), value.strides(), options);
      const OperatorScope scope(thread);
      const Unwatched unwatched;
      if (const std::optional<at::Tensor> place = values::alias(made)) put(*place, value);
      result = std::move(made);
    }
  }

  bool computed(const OperatorHandle& op, Thread& thread, const Stack& arguments, at::ArrayRef<IValue> results,
                const std::optional<Draw>& draw, Left* left) {
    const OperatorScope scope(thread);
    const Unwatched unwatched;
    try {
      Stack stack;
      stack.reserve(arguments.size() + 1);
      stack = arguments;
      if (draw) {
        stack.resize(std::max(stack.size(), plan_.generator + 1));
        stack[plan_.generator] = IValue(draw->numbers());
      }
      return compute_or_leave(op, &stack, results, left);
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
    return compute_later(real, op.schema(), c10::toString(op.operator_name()), arguments, results, compute_of(op));
  }

  const Plan plan_;
};

template <typename Kernel>
void put_in_front(const OperatorHandle& op, DispatchKey key, std::unique_ptr<Kernel> kernel) {
  Silent silent;  // overriding kernels is the point
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  // Lasts as long as the process.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), key, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)), std::nullopt, nullptr,
      "devtrace"));
}

// Operators that a library brings which is opened later. Their kernels come right after them, so nothing is looked at
// yet.
class Definitions final : public c10::OpRegistrationListener {
 public:
  explicit Definitions(void (*defined)()) : defined_(defined) {}
  void onOperatorRegistered(const OperatorHandle&) override {
    if (listens_) defined_();
  }
  void onOperatorDeregistered(const OperatorHandle&) override {}

  static std::atomic<bool> listens_;  // those that are there already are told, too

 private:
  void (*const defined_)();
};
std::atomic<bool> Definitions::listens_{false};

// An operator between devtrace_values_before and devtrace_values_after.
struct Begun {
  OperatorHandle op;
  DispatchKey key;
  c10::SafeKernelFunction real;
  How how;
  const c10::OperatorKernel* by = nullptr;
};

std::unique_ptr<Begun> begin(const char* name, const char* overload, DispatchKey key, How how) {
  const std::optional<OperatorHandle> op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op) return nullptr;
  auto begun = std::make_unique<Begun>(Begun{*op, key, op->getComputedKernelForDispatchKey(key), how});
  if (is_computed_here(*op, how)) {
    auto real = std::make_unique<Real>(begun->real);
    begun->by = real.get();
    put_in_front(*op, key, std::move(real));
  }
  return begun;
}

void finish(const Begun& begun, const char* out_overload, bool again) {
  Plan plan = plan_of(begun.op, begun.key, begun.how, again, out_overload);
  plan.real = begun.real;
  plan.by = begun.by;
  put_in_front(begun.op, begun.key, std::make_unique<PlannedKernel>(std::move(plan)));
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
  clear_memory_by(reinterpret_cast<ClearFunction>(dlsym(RTLD_DEFAULT, "devtrace_sim_cleared")));
  follow_uncomputed();
  return 1;
}

// Each operator: this, then python/ takes the real kernel and registers its own, then devtrace_values_after with what
// this returned. Null: python/ is alone with it. `sparse`: its kernel for sparse operands.
EXPORTED void* devtrace_values_before(const char* name, const char* overload, int sparse, int how) {
  try {
    const DispatchKey key = sparse ? DispatchKey::SparseCUDA : DispatchKey::CUDA;
    return begin(name, overload, key, static_cast<How>(how)).release();
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

// After the operators that are there: of those that are defined from now on the stub driver hears. 0: it is not there.
EXPORTED int devtrace_values_listen() {
  const auto defined = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "devtrace_sim_operators_defined"));
  if (!defined) return 0;
  // Lasts as long as the process.
  new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Definitions>(defined)));
  Definitions::listens_ = true;
  return 1;
}

// While a graph is captured every operator goes to python/, which keeps it for the replays.
EXPORTED void devtrace_values_record(int on) {
  g_recording = on != 0;
}

// The call that python/ is capturing on this thread: a number for devtrace_values_replay, 0 where there is none.
EXPORTED long devtrace_values_captured() {
  Capturing* const call = std::exchange(t_capturing, nullptr);
  if (!call || call->results.size() != call->op->schema().returns().size()) return 0;
  try {
    return captured::add(call->op->schema(), c10::toString(call->op->operator_name()), *call->arguments, call->results,
                         std::move(call->compute), call->is_tried);
  } catch (const std::exception&) {
    return 0;
  }
}

// 0: python/ has to compute it.
EXPORTED int devtrace_values_replay(long number) {
  return captured::replay(number);
}

// Whether a replay knows what nobody computed, and marks what depends on it (--values small).
EXPORTED int devtrace_values_follow() {
  return unknown::is_on();
}

EXPORTED void devtrace_values_forget(long number) {
  captured::forget(number);
}

// python/ goes on from there. `device`: the generator's, -1 where it names none.
EXPORTED void devtrace_values_mirrored(int device, unsigned long seed, unsigned long offset) {
  is_mirrored(device, seed, offset);
}

// ... and from nowhere any more.
EXPORTED void devtrace_values_forget_mirrored() {
  forget_mirrored();
}

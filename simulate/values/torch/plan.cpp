#include "simulate/values/torch/plan.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "simulate/values/torch/alias.h"
#include "simulate/values/torch/random.h"
#include "simulate/values/torch/recurrent.h"

namespace devtrace::simulate::values {
namespace {

using c10::DispatchKey;
using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

// See SLOW in python/wider.py: halves are multiplied in float.
bool is_slow_in_half(const c10::OperatorName& name) {
  static constexpr std::array<std::string_view, 7> kNames = {"aten::mm",
                                                             "aten::bmm",
                                                             "aten::addmm",
                                                             "aten::baddbmm",
                                                             "aten::_addmm_activation",
                                                             "aten::convolution",
                                                             "aten::convolution_backward"};
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

Special special_of(const c10::OperatorName& name) {
  for (const auto find : {recurrent_cell, dropout_of, attention_backward})
    if (const Special found = find(name)) return found;
  return nullptr;
}

ClearFunction g_clear = nullptr;

bool sets_to_zero(const at::Tensor& tensor) {
  return tensor.is_contiguous() && clear_memory(tensor.mutable_data_ptr(), tensor.nbytes());
}

// What takes place in an argument. False when python/ has to do it.
bool compute_in_place(const OperatorHandle& op, const Plan& plan, Stack* stack) {
  const bool apart = plan.is_out && !(plan.is_pointwise && stack->back().toTensor().is_contiguous());
  if (!apart) {
    if (plan.zeroes && sets_to_zero(stack->back().toTensor())) return true;
    plan.cpu->callBoxed(op, kCpu, stack);
    return true;
  }
  // Other kernels of the CPU's forget an out='s strides, or make it larger for a while, for which an alias has no room.
  const at::Tensor out = stack->back().toTensor();
  if (!plan.out) return false;
  stack->pop_back();
  plan.out->callBoxed(plan.out->opHandle(), kCpu, stack);
  const at::Tensor& value = stack->back().toTensor();
  if (!value.defined() || value.layout() != c10::kStrided || value.sizes() != out.sizes()) return false;
  put(out, value);
  return true;
}

// The CPU's value of one result into the real one. False when python/ has to do it.
bool keep(const IValue& result, const IValue& value, size_t at, Left* left) {
  if (!result.isTensor() || !value.isTensor()) return false;
  const at::Tensor &real = result.toTensor(), &made = value.toTensor();
  if (!real.defined() || !made.defined()) return true;  // not asked for
  if (made.layout() != c10::kStrided || made.is_nested() || real.is_nested()) return false;
  const std::optional<at::Tensor> place = place_of(real);
  if (!place) return false;
  if (made.sizes() != place->sizes()) {
    if (left) left->emplace_back(at, made);
    return left != nullptr;
  }
  put(*place, made);
  return true;
}

bool keep_list(const IValue& result, const IValue& value) {
  if (!result.isTensorList() || !value.isTensorList()) return false;
  const auto real = result.toListRef(), made = value.toListRef();
  if (real.size() != made.size()) return false;
  for (size_t i = 0; i < real.size(); ++i)
    if (!keep(real[i], made[i], i, nullptr)) return false;
  return true;
}

bool keep_all(const Plan& plan, at::ArrayRef<IValue> results, at::ArrayRef<IValue> values, Left* left) {
  if (results.size() != values.size()) return false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (plan.results[i]) continue;
    if (!(results[i].isTensorList() ? keep_list(results[i], values[i]) : keep(results[i], values[i], i, left)))
      return false;
  }
  return true;
}

}  // namespace

void clear_memory_by(ClearFunction function) {
  g_clear = function;
}

bool clear_memory(void* address, size_t size) {
  return g_clear && g_clear(address, size);
}

bool is_computed_here(const OperatorHandle& op, How how) {
  return how != kGate || attention_of(op) || special_of(op.operator_name());
}

Plan plan_of(const OperatorHandle& op, DispatchKey key, How how, bool again, const char* out_overload) {
  Plan plan = {.real = op.getComputedKernelForDispatchKey(key), .python = op.getComputedKernelForDispatchKey(key)};
  plan.is_sparse = key == DispatchKey::SparseCUDA;
  const DispatchKey on_cpu = plan.is_sparse ? DispatchKey::SparseCPU : DispatchKey::CPU;
  const c10::FunctionSchema& schema = op.schema();
  plan.arguments = schema.arguments().size();
  plan.access = unknown::access_of(schema);
  for (const c10::Argument& each : schema.returns())
    plan.results.push_back(each.alias_info() && each.alias_info()->isWrite());
  if (!is_computed_here(op, how)) return plan;
  plan.nested_too = how == kNestedToo;
  plan.grows = how == kGrows;
  plan.by_numbers = how == kByNumbers;
  plan.again = again && !plan.nested_too;
  plan.special = special_of(op.operator_name());
  if (dropout_of(op.operator_name())) plan.generator = plan.arguments;
  if (plan.special) return plan;
  plan.attention = attention_of(op);
  if (plan.attention) plan.generator = plan.arguments;
  plan.cpu = (plan.attention ? cpu_attention() : op).getComputedKernelForDispatchKey(on_cpu);
  plan.is_single =
      plan.results.size() == 1 && !plan.grows && schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  plan.writes = plan.is_single && plan.results[0];
  plan.is_out = plan.writes && schema.arguments().back().is_out();
  plan.slow_in_half = is_slow_in_half(op.operator_name());
  plan.copies = op.operator_name().name == "aten::copy_";
  plan.zeroes = op.operator_name().name == "aten::zero_" && !plan.is_out;
  plan.is_pointwise = op.hasTag(at::Tag::pointwise);
  if (const auto at = schema.argumentIndexWithName("pin_memory")) plan.pinned = static_cast<size_t>(*at);
  if (how == kRandom) plan.generator = static_cast<size_t>(schema.argumentIndexWithName("generator").value());
  const auto out = c10::Dispatcher::singleton().findSchema({op.operator_name().name, out_overload});
  const size_t others = plan.is_out ? plan.arguments - 1 : plan.arguments + 1;
  if (!plan.is_sparse && *out_overload && out && out->schema().arguments().size() == others &&
      out->schema().arguments().back().is_out() != plan.is_out)
    plan.out = out->getComputedKernelForDispatchKey(DispatchKey::CPU);
  return plan;
}

bool fits(const Plan& plan, at::ArrayRef<IValue> arguments) {
  if (!plan.cpu && !plan.special) return false;
  if (plan.by_numbers) {
    if (arguments[0].toTensor().is_cpu()) return false;  // it copies indices from the GPU
    for (const IValue& each : arguments[1].toListRef())
      if (each.isTensor() && (each.toTensor().scalar_type() == at::kBool || each.toTensor().scalar_type() == at::kByte))
        return false;
  }
  return !plan.attention || plan.attention->fits(arguments);
}

bool compute(const OperatorHandle& op, const Plan& plan, Stack* stack, at::ArrayRef<IValue> results, Left* left) {
  if (plan.is_sparse && plan.is_single && results[0].isTensor() && results[0].toTensor().layout() != c10::kStrided)
    return false;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  for (IValue& each : *stack)
    if (!convert(&each)) return false;
  if (plan.attention) return plan.attention->compute(*plan.cpu, stack, results);
  if (plan.special) return plan.special(*stack, results);
  if (plan.pinned < stack->size()) (*stack)[plan.pinned] = IValue();
  if (plan.writes) return compute_in_place(op, plan, stack);
  const bool in_float = plan.slow_in_half && halves_to_float(stack);
  if (!plan.is_single || !plan.out || in_float) {
    plan.cpu->callBoxed(op, plan.is_sparse ? kSparseCpu : kCpu, stack);
    return keep_all(plan, results, *stack, left);
  }
  if (!results[0].isTensor() || !results[0].toTensor().defined()) return false;
  const std::optional<at::Tensor> place = place_of(results[0].toTensor());
  if (!place) return false;
  stack->emplace_back(*place);
  plan.out->callBoxed(plan.out->opHandle(), kCpu, stack);
  return place->sizes() == results[0].toTensor().sizes();
}

}  // namespace devtrace::simulate::values

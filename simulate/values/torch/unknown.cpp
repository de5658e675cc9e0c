#include "simulate/values/torch/unknown.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "simulate/values/torch/alias.h"
#include "simulate/values/torch/blocks.h"
#include "simulate/values/torch/choices.h"
#include "simulate/values/torch/plan.h"

namespace devtrace::simulate::values::unknown {
namespace {

using c10::IValue;
using torch::jit::Stack;

constexpr size_t kLargeWhole = size_t{16} << 20;  // bytes; whole numbers below it are computed, whatever was said

size_t smallest_large() {
  const UncomputedForTorch* const known = uncomputed_memory();
  return known ? known->large_from->load(std::memory_order_relaxed) : SIZE_MAX;
}

bool is_whole(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

// Dense, so that an address says where it is; others are python/'s.
bool is_dense(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_nested();
}

// Also where a graph or a stream has kept its alias.
bool is_on_device(const at::Tensor& tensor) {
  return tensor.is_cuda() || (tensor.is_cpu() && tensor.storage().data() == everything().data());
}

bool is_large(const at::Tensor& tensor) {
  const size_t from = smallest_large();
  return std::min(Span(tensor).size, tensor.nbytes()) >= (is_whole(tensor) ? std::max(from, kLargeWhole) : from);
}

// Never computed. Of whole numbers 8 to 32 bits are as good as always a quantised model's; masks and indices have
// others.
bool is_left(const at::Tensor& tensor) {
  return tensor.scalar_type() != at::kBool && tensor.scalar_type() != at::kLong && is_large(tensor);
}

// visit(tensor) for each that is there; false ends it.
template <class Visit>
bool each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) return !value.toTensor().defined() || visit(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList()) return true;
  for (const IValue& each : value.toListRef())
    if (each.isTensor() && each.toTensor().defined() && !visit(each.toTensor())) return false;
  return true;
}

bool has_masks(const IValue& indices) {
  return !each_tensor(indices, [](const at::Tensor& each) {
    return each.scalar_type() != at::kBool && each.scalar_type() != at::kByte;
  });
}

void set_to_zero(const at::Tensor& tensor) {
  if (!tensor.numel()) return;
  if (tensor.is_non_overlapping_and_dense()) {
    const Span span(tensor);
    void* const begin = reinterpret_cast<void*>(span.begin);
    if (!is_on_device(tensor) || !clear_memory(begin, span.size)) std::memset(begin, 0, span.size);
  } else if (const std::optional<at::Tensor> place = place_of(tensor)) {
    place->zero_();
  }
}

// One element that stands for all of a tensor: they are the same where it is unknown.
at::Tensor one_of(const at::Tensor& tensor) {
  at::Tensor one = at::zeros({1}, at::TensorOptions(tensor.dtype()).device(at::kCPU));
  if (is_whole(tensor) && tensor.numel())
    std::memcpy(one.mutable_data_ptr(), tensor.const_data_ptr(), tensor.element_size());
  return tensor.dim() ? one : one.view({});
}

// Lists of indices stay as they are.
template <class Change>
void change_tensors(IValue* value, const Change& change) {
  if (value->isTensor()) {
    if (value->toTensor().defined()) *value = IValue(change(value->toTensor()));
  } else if (value->isTensorList()) {
    c10::List<at::Tensor> list;
    for (const IValue& each : value->toListRef()) list.push_back(change(each.toTensor()));
    *value = IValue(std::move(list));
  }
}

// A large result of whole numbers, each of its own operands' elements: one stands for all.
bool compute_one(const Plan& plan, at::ArrayRef<IValue> arguments, const at::Tensor& result) {
  if (!plan.cpu || !plan.is_pointwise) return false;
  Stack stack(arguments.begin(), arguments.end());
  for (IValue& each : stack) change_tensors(&each, one_of);
  plan.cpu->callBoxed(plan.cpu->opHandle(), kCpu, &stack);
  if (stack.size() != 1 || !stack[0].isTensor()) return false;
  const at::Tensor& value = stack[0].toTensor();
  const std::optional<at::Tensor> place = place_of(result);
  if (!place || value.numel() != 1) return false;
  if (value.is_nonzero())
    place->fill_(value.reshape({}));
  else
    set_to_zero(result);
  return true;
}

// Whole numbers, from what memory holds; in the place of what is large stands an element of it.
bool compute_whole(const c10::OperatorHandle& op, const Plan& plan, at::ArrayRef<IValue> arguments,
                   at::ArrayRef<IValue> results, const std::vector<at::Tensor>& written) {
  if (!plan.cpu || plan.generator != SIZE_MAX || (plan.grows && !plan.access.picks)) return false;
  try {
    if (std::any_of(written.begin(), written.end(), is_large))
      return written.size() == 1 && compute_one(plan, arguments, written[0]);
    Stack stack(arguments.begin(), arguments.end());
    for (IValue& each : stack)
      change_tensors(&each, [](const at::Tensor& tensor) {
        return is_dense(tensor) && is_on_device(tensor) && is_large(tensor) ? one_of(tensor).expand(tensor.sizes())
                                                                            : tensor;
      });
    return fits(plan, stack) && compute(op, plan, &stack, results);
  } catch (const std::exception&) {
    return false;  // for its values, or its types
  }
}

// All that the call has written to, each once.
std::vector<at::Tensor> written_by(const Plan& plan, at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  std::vector<at::Tensor> all;
  const auto add = [&](const at::Tensor& tensor) {
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const at::Tensor& each) { return each.is_same(tensor); });
    if (!known && is_dense(tensor)) all.push_back(tensor);
    return true;
  };
  for (size_t i = 0; i < plan.access.writes.size(); ++i)
    if (plan.access.writes[i]) each_tensor(arguments[i], add);
  for (const IValue& each : results) each_tensor(each, add);
  return all;
}

// The indices among the results of who chooses by numbers. False: it does not choose.
bool choose(const c10::OperatorHandle& op, at::ArrayRef<IValue> arguments, const std::vector<at::Tensor>& written) {
  const auto indices = std::find_if(written.begin(), written.end(),
                                    [](const at::Tensor& each) { return each.scalar_type() == at::kLong; });
  if (indices == written.end() || is_large(*indices) || !arguments[0].isTensor() || is_whole(arguments[0].toTensor()))
    return false;
  const std::optional<at::Tensor> chosen = choice(op.schema(), arguments, *indices), place = place_of(*indices);
  if (chosen && place) place->copy_(*chosen);
  return chosen && place;
}

}  // namespace

bool is_on() {
  return smallest_large() != SIZE_MAX;
}

Access access_of(const c10::FunctionSchema& schema) {
  Access access;
  // What is drawn anew depends on nothing that was there.
  constexpr std::array<std::string_view, 10> kForgetting = {
      "aten::normal_",     "aten::uniform_",   "aten::random_", "aten::bernoulli_",     "aten::exponential_",
      "aten::log_normal_", "aten::geometric_", "aten::cauchy_", "aten::_foreach_zero_", "aten::_foreach_copy_"};
  const bool forgets = overwrites(schema.name()) ||
                       std::find(kForgetting.begin(), kForgetting.end(), schema.name()) != kForgetting.end();
  for (const c10::Argument& each : schema.arguments()) {
    // Gradients that nobody knows are taken for finite: else a scale would go down with each step.
    const bool finite =
        schema.name() == "aten::_amp_foreach_non_finite_check_and_unscale_" && each.name() == "found_inf";
    const bool writes = !finite && each.alias_info() && each.alias_info()->isWrite();
    access.writes.push_back(writes);
    access.reads.push_back(!finite && (!writes || !(each.is_out() || forgets)));
    access.gives_tensors |= writes;
  }
  for (const c10::Argument& each : schema.returns()) {
    const c10::TypeKind kind = each.type()->kind();
    access.gives_tensors |= kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
  }
  access.picks = schema.name() == "aten::index" && schema.overload_name() == "Tensor";
  return access;
}

bool leaves(const Plan& plan, at::ArrayRef<IValue> arguments) {
  if (!plan.access.gives_tensors) return false;
  if (plan.grows && !(plan.access.picks && !has_masks(arguments[1]))) return false;
  bool found = false;
  for (size_t i = 0; i < plan.access.reads.size(); ++i) {
    const bool dense = each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      if (!is_dense(tensor)) return false;
      found |= is_on_device(tensor) && (is_left(tensor) || (plan.access.reads[i] && is_marked(tensor)));
      return true;
    });
    if (!dense) return false;
  }
  return found;
}

bool leaves_results(const Plan& plan, at::ArrayRef<IValue> results) {
  if (plan.grows) return false;
  for (const IValue& each : results) {
    const auto is_computed = [](const at::Tensor& tensor) {
      return !is_dense(tensor) || !is_on_device(tensor) || !is_left(tensor);
    };
    if (!each_tensor(each, is_computed)) return true;
  }
  return false;
}

void leave(const c10::OperatorHandle& op, const Plan& plan, at::ArrayRef<IValue> arguments,
           at::ArrayRef<IValue> results) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const UncomputedForTorch& memory = *uncomputed_memory();
  memory.left();
  watch_blocks();
  const std::vector<at::Tensor> written = written_by(plan, arguments, results);
  const bool numbers = !std::all_of(written.begin(), written.end(), is_whole);
  const bool known =
      choose(op, arguments, written) || (!numbers && compute_whole(op, plan, arguments, results, written));
  for (const at::Tensor& each : written) {
    if (!known || !is_whole(each)) set_to_zero(each);
    if (is_on_device(each))
      set_source(each, memory.unknown);
    else if (plan.copies)
      memory.read();
  }
}

void is_known(at::ArrayRef<IValue> results) {
  if (!uncomputed_memory()->any->load(std::memory_order_relaxed)) return;
  for (const IValue& each : results)
    each_tensor(each, [](const at::Tensor& tensor) {
      if (is_dense(tensor) && is_on_device(tensor) && is_marked(tensor)) set_source(tensor, 0);
      return true;
    });
}

}  // namespace devtrace::simulate::values::unknown

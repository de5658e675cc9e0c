#include "simulate/values/torch/attention.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "simulate/values/torch/alias.h"

namespace devtrace::simulate::values {
namespace {

using c10::IValue;

constexpr std::array<std::string_view, 2> kNames = {"aten::_scaled_dot_product_efficient_attention",
                                                    "aten::_scaled_dot_product_flash_attention"};

// See fits_cpu_kernel in python/specials.py.
bool fits_cpu_kernel(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const c10::IValue& bias) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  const bool same = query.size(3) == key.size(3) && key.size(3) == value.size(3) && query.size(1) == key.size(1) &&
                    key.size(1) == value.size(1);
  if (!same || !query.numel() || !key.numel() || !value.numel()) return false;
  if (bias.isNone()) return true;
  const at::Tensor& mask = bias.toTensor();
  return mask.dim() == 4 && (mask.scalar_type() == query.scalar_type() || mask.scalar_type() == at::kBool);
}

// query·keyᵀ·scale and the mask; where both are one, the caller has refused it.
at::Tensor scores_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& mask, bool causal,
                     double scale) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  at::Tensor scores = at::matmul(query, key.transpose(-2, -1)).mul_(scale);
  if (causal)
    scores.masked_fill_(at::ones({scores.size(-2), scores.size(-1)}, at::TensorOptions(at::kBool)).triu(1), kHidden);
  if (!mask.defined()) return scores;
  return mask.scalar_type() == at::kBool ? scores.masked_fill_(mask.logical_not(), kHidden) : scores.add_(mask);
}

// What dropout multiplies with; the same for the same seed.
at::Tensor kept_by_dropout(const at::Tensor& like, double p, const at::Generator& numbers) {
  return at::empty(like.sizes(), at::TensorOptions(at::kFloat)).bernoulli_(1 - p, numbers).div_(1 - p);
}

double scale_of(const IValue& scale, const at::Tensor& query) {
  return scale.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : scale.toDouble();
}

// One number, of eight bytes, if there is a place for it.
bool has_seed(const IValue& state) {
  return state.isTensor() && state.toTensor().defined() && state.toTensor().numel() &&
         state.toTensor().element_size() == sizeof(int64_t);
}

// Where a backward has its arguments. grad, query, key and value come first.
struct Backward {
  std::optional<size_t> bias;
  size_t out, log_sum, seed, dropout, causal, scale;
};

bool cpu_backward(const Backward& at, at::ArrayRef<IValue> given, at::ArrayRef<IValue> results) {
  static const auto* op = new c10::OperatorHandle(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_scaled_dot_product_flash_attention_for_cpu_backward", ""));
  const at::Tensor sums = given[at.log_sum].toTensor().narrow(-1, 0, given[1].toTensor().size(-2)).contiguous();
  const IValue mask = at.bias && given[*at.bias].toTensor().defined() ? given[*at.bias] : IValue();
  torch::jit::Stack call = {given[0], given[1], given[2],         given[3], given[at.out],
                            sums,     0.0,      given[at.causal], mask,     given[at.scale]};
  op->redispatchBoxed(kCpu, &call);
  for (size_t i = 0; i < 3; ++i)
    if (!keep_special(results[i], call[i].toTensor())) return false;
  return true;
}

bool backward(const Backward& at, at::ArrayRef<IValue> given, at::ArrayRef<IValue> results) {
  const IValue none, &mask = at.bias && given[*at.bias].toTensor().defined() ? given[*at.bias] : none;
  const bool causal = given[at.causal].toBool();
  if (!fits_cpu_kernel(given[1].toTensor(), given[2].toTensor(), given[3].toTensor(), mask)) return false;
  if ((causal && !mask.isNone()) || (results.size() > 3 && results[3].toTensor().defined())) return false;
  const double p = given[at.dropout].toDouble();
  if (p == 0.0) return cpu_backward(at, given, results);
  const at::Tensor grad = up(given[0]), query = up(given[1]), key = up(given[2]), value = up(given[3]);
  const double scale = scale_of(given[at.scale], query);
  const at::Tensor weights = scores_of(query, key, up(mask), causal, scale).softmax(-1).nan_to_num_(0.0);
  if (!has_seed(given[at.seed])) return false;
  at::Generator numbers = at::detail::createCPUGenerator(
      static_cast<uint64_t>(*static_cast<const int64_t*>(given[at.seed].toTensor().const_data_ptr())));
  const at::Tensor dropped = kept_by_dropout(weights, p, numbers);
  const at::Tensor of_weights = at::matmul(grad, value.transpose(-2, -1)).mul_(dropped);
  const at::Tensor of_value = at::matmul(weights.mul(dropped).transpose(-2, -1), grad);
  const at::Tensor of_scores = of_weights.sub(of_weights.mul(weights).sum(-1, true)).mul_(weights);
  return keep_special(results[0], at::matmul(of_scores, key).mul_(scale)) &&
         keep_special(results[1], at::matmul(of_scores.transpose(-2, -1), query).mul_(scale)) &&
         keep_special(results[2], of_value);
}

// (grad, query, key, value, bias, out, log_sum, seed, offset, dropout, wanted, causal, scale)
bool efficient_backward(at::ArrayRef<IValue> given, at::ArrayRef<IValue> results) {
  return given.size() == 13 && backward({4, 5, 6, 7, 9, 11, 12}, given, results);
}

// (grad, query, key, value, out, log_sum, starts_q, starts_k, max_q, max_k, dropout, causal, seed, offset, scale)
bool flash_backward(at::ArrayRef<IValue> given, at::ArrayRef<IValue> results) {
  return given.size() == 15 && backward({std::nullopt, 4, 5, 12, 10, 11, 14}, given, results);
}

}  // namespace

Special attention_backward(const c10::OperatorName& name) {
  if (!name.overload_name.empty()) return nullptr;
  if (name.name == "aten::_scaled_dot_product_efficient_attention_backward") return efficient_backward;
  return name.name == "aten::_scaled_dot_product_flash_attention_backward" ? flash_backward : nullptr;
}

std::optional<Attention> attention_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  if (std::find(kNames.begin(), kNames.end(), name.name) == kNames.end() || !name.overload_name.empty())
    return std::nullopt;
  const auto at = [&](const char* argument) { return op.schema().argumentIndexWithName(argument); };
  const auto dropout = at("dropout_p"), causal = at("is_causal"), scale = at("scale"), bias = at("attn_bias");
  if (!dropout || !causal || !scale) return std::nullopt;
  Attention found{static_cast<size_t>(*dropout),
                  static_cast<size_t>(*causal),
                  static_cast<size_t>(*scale),
                  {},
                  bias ? size_t{2} : size_t{6}};
  if (bias) found.bias = static_cast<size_t>(*bias);
  return found;
}

const c10::OperatorHandle& cpu_attention() {
  static const auto* op = new c10::OperatorHandle(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_scaled_dot_product_flash_attention_for_cpu", ""));
  return *op;
}

bool Attention::fits(at::ArrayRef<c10::IValue> arguments) const {
  const c10::IValue none, &mask = bias ? arguments[*bias] : none;
  if (arguments[causal].toBool() && !mask.isNone()) return false;
  return fits_cpu_kernel(arguments[0].toTensor(), arguments[1].toTensor(), arguments[2].toTensor(), mask);
}

bool Attention::compute(const c10::SafeKernelFunction& cpu, torch::jit::Stack* stack,
                        at::ArrayRef<c10::IValue> results) const {
  if (!results[0].toTensor().defined() || !results[1].toTensor().defined()) return false;
  torch::jit::Stack call = {
      (*stack)[0],    (*stack)[1], (*stack)[2], 0.0, (*stack)[causal], bias ? (*stack)[*bias] : c10::IValue(),
      (*stack)[scale]};
  const std::optional<at::Tensor> output = values::alias(results[0].toTensor()),
                                  sums = values::alias(results[1].toTensor());
  if (!output || !sums) return false;
  if (drops(*stack)) {
    if (!has_seed(results[state])) return false;
    const at::Generator numbers = stack->back().toGenerator();
    const std::optional<at::Tensor> seed = place_of(results[state].toTensor());
    if (!seed) return false;
    const double p = (*stack)[dropout].toDouble();
    const at::Tensor query = up(call[0]);
    at::Tensor weights = scores_of(query, up(call[1]), up(call[5]), call[4].toBool(), scale_of(call[6], query));
    const at::Tensor log_sum = weights.logsumexp(-1);
    weights.sub_(log_sum.unsqueeze(-1)).exp_().nan_to_num_(0.0);
    *static_cast<int64_t*>(seed->mutable_data_ptr()) = static_cast<int64_t>(numbers.current_seed());
    weights.mul_(kept_by_dropout(weights, p, numbers));
    call = {at::matmul(weights, up(call[2])), log_sum};
  } else {
    cpu.callBoxed(cpu.opHandle(), kCpu, &call);
  }
  const at::Tensor &value = call[0].toTensor(), &log_sum = call[1].toTensor();
  if (value.sizes() != output->sizes()) return false;
  put(*output, value);
  if (!sums->numel()) return true;  // nobody asked for them
  // The real kernel pads the length.
  sums->zero_();
  sums->narrow(-1, 0, log_sum.size(-1)).copy_(log_sum);
  return true;
}

}  // namespace devtrace::simulate::values

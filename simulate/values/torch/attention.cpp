#include "simulate/values/torch/attention.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "simulate/values/torch/alias.h"

namespace devtrace::simulate::values {
namespace {

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

}  // namespace

std::optional<Attention> attention_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  if (std::find(kNames.begin(), kNames.end(), name.name) == kNames.end() || !name.overload_name.empty())
    return std::nullopt;
  const auto at = [&](const char* argument) { return op.schema().argumentIndexWithName(argument); };
  const auto dropout = at("dropout_p"), causal = at("is_causal"), scale = at("scale"), bias = at("attn_bias");
  if (!dropout || !causal || !scale) return std::nullopt;
  Attention found{static_cast<size_t>(*dropout), static_cast<size_t>(*causal), static_cast<size_t>(*scale), {}};
  if (bias) found.bias = static_cast<size_t>(*bias);
  return found;
}

const c10::OperatorHandle& cpu_attention() {
  static const auto* op = new c10::OperatorHandle(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_scaled_dot_product_flash_attention_for_cpu", ""));
  return *op;
}

bool Attention::fits(at::ArrayRef<c10::IValue> arguments) const {
  if (arguments[dropout].toDouble() != 0.0) return false;
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
  const std::optional<at::Tensor> output = alias(results[0].toTensor()), sums = alias(results[1].toTensor());
  if (!output || !sums) return false;
  cpu.callBoxed(cpu.opHandle(), kCpu, &call);
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

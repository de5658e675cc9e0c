// Operators that are computed in a way of their own, as CUDA alone has them.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "simulate/values/torch/alias.h"

namespace devtrace::simulate::values {

// `arguments`: converted; `results`: the real kernel's. False: python/ has to do it.
using Special = bool (*)(at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results);

// In the type in which CUDA's kernels accumulate. What is undefined or None stays so.
inline at::Tensor up(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return {};
  const at::Tensor& tensor = value.toTensor();
  const bool is_narrow = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return is_narrow ? tensor.to(at::kFloat) : tensor;
}

// Puts the value where the real kernel's result is, if somebody asked for it. False: it does not fit.
inline bool keep_special(const c10::IValue& result, const at::Tensor& value) {
  if (!result.isTensor()) return result.isNone();
  if (!result.toTensor().defined() || !value.defined()) return true;
  const std::optional<at::Tensor> place = place_of(result.toTensor());
  if (!place || place->sizes() != value.sizes()) return false;
  put(*place, value);
  return true;
}

}  // namespace devtrace::simulate::values

// Operators that are computed in a way of their own, as CUDA alone has them.
#pragma once

#include <ATen/core/ivalue.h>

namespace devtrace::simulate::values {

// `arguments`: converted; `results`: the real kernel's. False: python/ has to do it.
using Special = bool (*)(at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results);

}  // namespace devtrace::simulate::values

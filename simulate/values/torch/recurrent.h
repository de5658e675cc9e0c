// LSTM's and GRU's cells: CUDA has operators of one step that the CPU lacks. The same mathematics as
// python/specials.py's, in a fraction of its time: a sequence is made of hundreds of them.
#pragma once

#include <ATen/core/operator_name.h>

#include "simulate/values/torch/special.h"

namespace devtrace::simulate::values {

// Null for other operators.
Special recurrent_cell(const c10::OperatorName& name);

}  // namespace devtrace::simulate::values

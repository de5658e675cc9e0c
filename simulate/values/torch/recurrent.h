// LSTM's and GRU's cells: CUDA has operators of one step that the CPU lacks. The same mathematics as
// python/specials.py's, in a fraction of its time: a sequence is made of hundreds of them.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

namespace devtrace::simulate::values {

// `arguments`: converted; `results`: the real kernel's. False: python/ has to do it.
using RecurrentCell = bool (*)(at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results);

// Null for other operators.
RecurrentCell recurrent_cell(const c10::OperatorName& name);

}  // namespace devtrace::simulate::values

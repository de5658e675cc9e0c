// Operators that a CUDA graph captured: kept until its replays, which compute them without Python.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "simulate/values/torch/later.h"

namespace devtrace::simulate::values::captured {

// A number for replay(), 0 where python/ has to compute it. `name`: of the operator. `is_tried`: once, with zeros.
long add(const c10::FunctionSchema& schema, const std::string& name, at::ArrayRef<c10::IValue> arguments,
         at::ArrayRef<c10::IValue> results, Compute compute, bool is_tried);

// False: python/ has to do it, which also finds out what is wrong.
bool replay(long number);

// The graph is gone.
void forget(long number);

}  // namespace devtrace::simulate::values::captured

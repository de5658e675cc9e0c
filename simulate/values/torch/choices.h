// What is chosen by values that nobody knows: indices that are legal and the same each time.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace devtrace::simulate::values::unknown {

// The indices that argmax, topk, sort, multinomial and their kin give, of the shape of `indices`, on the CPU; nothing
// for other operators. They begin in the middle, as most vocabularies have what ends a text first or last. They go on
// from row to row, so that a mixture's experts are used alike.
std::optional<at::Tensor> choice(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments,
                                 const at::Tensor& indices);

}  // namespace devtrace::simulate::values::unknown

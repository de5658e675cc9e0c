// --values small: which calls are left, and what their results are then.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace devtrace::simulate::values {

struct Plan;

namespace unknown {

// Whether anything is: --values small.
bool is_on();

// What an operator does with its arguments.
struct Access {
  std::vector<bool> reads, writes;  // by argument; what is overwritten is not read
  bool gives_tensors = false;       // as results, or in arguments
  bool picks = false;               // index(): of a size that depends on values only where one of its indices is a mask
};
Access access_of(const c10::FunctionSchema& schema);

// A call that depends on unknown values, or writes to what is too large: its results are not what the CPU would
// compute.
bool leaves(const Plan& plan, at::ArrayRef<c10::IValue> arguments);
// Results that are too large, whatever the arguments.
bool leaves_results(const Plan& plan, at::ArrayRef<c10::IValue> results);

// After the real kernel: numbers are zero and unknown. Whole numbers and truth values are computed from that, if
// nothing large has to be read for it; those that choose, by values that are unknown, choose the middle.
void leave(const c10::OperatorHandle& op, const Plan& plan, at::ArrayRef<c10::IValue> arguments,
           at::ArrayRef<c10::IValue> results);

// These were computed, in the place perhaps of what was not.
void is_known(at::ArrayRef<c10::IValue> results);

}  // namespace unknown
}  // namespace devtrace::simulate::values

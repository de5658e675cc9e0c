// Which of PyTorch's errors are refusals of mixed devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracker/device.h"

namespace devtrace::refusals {

enum class Likelihood {
  none,      // an ordinary error: nothing is looked at
  possible,  // speaks of devices: a refusal if the operands of the failing expression really are on different devices
  certain,   // one of PyTorch's device checks
};
Likelihood judge(std::string_view message);

// The devices that a message names, in order of appearance and once each: `cuda:1`, `cpu`, `torch.cuda.FloatTensor`
// (cuda, its index unknown: left out), `torch.FloatTensor` (cpu).
std::vector<std::string> devices_named(std::string_view message);

// "argument index" out of "...when checking argument for argument index in method wrapper_CUDA__index_select":
// {"index", the method}.
struct Checked {
  std::string argument;
  std::string method;
};
Checked checked_argument(std::string_view message);

}  // namespace devtrace::refusals

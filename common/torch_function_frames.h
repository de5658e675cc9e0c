// Frames of Python's that stand between a line of the program's and PyTorch's function, and do neither's work.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "common/text.h"

namespace devtrace {

// A mode or a class of tensors is asked before each function of PyTorch's; torch.set_default_device() has such a mode.
// The function runs below it as it would without: what stands between the two would hide what the program's line gave.
// `frames`: innermost first, with `file` and `function`. Where there is nothing else, they stay. `passes_on`: does the
// program's own function of that name call the one that it was asked about, and not another one for itself?
template <class Frame, class PassesOn>
void leave_out_torch_function(std::vector<Frame>& frames, const PassesOn& passes_on) {
  std::vector<Frame> left;
  bool handled = false;  // the function itself has asked, and is called again below
  for (Frame& frame : frames) {
    const bool library = !within_packages(frame.file).empty();
    const bool asked = frame.function.ends_with("__torch_function__") && (library || passes_on(frame));
    const bool handles = library && frame.function == "handle_torch_function";
    const bool again =
        handled && !left.empty() && left.back().file == frame.file && left.back().function == frame.function;
    handled = handles;
    if (!asked && !handles && !again) left.push_back(std::move(frame));
  }
  if (!left.empty()) frames = std::move(left);
}

}  // namespace devtrace

// Of an error that Python code raises: which code that is, who asked it, and for what.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"

namespace devtrace::evidence {

// The innermost frame of another package than the one that raises: its expression is what was asked for. 0: the code
// that raises is the program's own. `frames` is not empty.
size_t asking_frame(const std::vector<Frame>& frames);

// Is the innermost frame of the program's own one that torch.compile interprets?
bool compiling(const std::vector<Frame>& frames);

// What that frame called, under its shortest public name: as its own text says it (`torch.cuda.set_device`), else the
// one by which the function is imported. `torch.nn.LSTM` where a module was called. Empty where neither is known.
std::string called_function(const python::Api& api, const std::vector<Frame>& frames, size_t asking);

}  // namespace devtrace::evidence

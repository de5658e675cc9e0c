// Which CUDA a program's PyTorch was built for.
#pragma once

#include <string>

namespace devtrace::report::command {

// The major version (12, 13) that the PyTorch beside the program's interpreter names: `program` is a command as typed,
// looked up in PATH; its environment is the folder above its own (a virtual environment's bin/python, bin/torchrun).
// 0 when there is none, or it is not for CUDA. Only files are read: nothing is started.
int cuda_of_torch(const std::string& program);

}  // namespace devtrace::report::command

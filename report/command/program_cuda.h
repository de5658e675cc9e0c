// Which CUDA a program was built for.
#pragma once

#include <string>

namespace devtrace::report::command {

// The major version (12, 13) of the CUDA runtime that a program is linked to or has inside it; else of the one that the
// PyTorch, or without PyTorch the CuPy, beside its interpreter names. `program` is a command as typed, looked up in
// PATH; an interpreter's environment is the folder above its own (a virtual environment's bin/python, bin/torchrun). 0
// when there is none, or it is not for CUDA. Only files are read: nothing is started.
int cuda_of_program(const std::string& program);

}  // namespace devtrace::report::command

// Which object files may be the user's own program.
#pragma once

#include <string_view>

namespace devtrace::stacks {

// Whether an object file, by its path, may be the user's: neither CUDA's, PyTorch's, the C and C++ libraries' nor the
// Python interpreter's. Empty: the program itself, by the name of its file.
bool may_be_the_users(std::string_view path);

}  // namespace devtrace::stacks

// Several modules of PTX to one, as the driver's linker and nvcc -rdc=true need it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace devtrace::ptx {

// One text that parse() takes. A name that only its own module sees is changed where another one has it. Sections for
// debuggers are left out. Nothing: *error says which name is defined twice. Throws std::bad_alloc and nothing else.
std::optional<std::string> link(const std::vector<std::string>& texts, std::string* error);

}  // namespace devtrace::ptx

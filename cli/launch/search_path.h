// Lists of folders in the environment: PATH, PYTHONPATH.
#pragma once

#include <string_view>
#include <vector>

namespace devtrace::cli {

// What stands between its colons. An empty place, which means the folder that a program is started in, is left out.
std::vector<std::string_view> folders_of(std::string_view list);

}  // namespace devtrace::cli

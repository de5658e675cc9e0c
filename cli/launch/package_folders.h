// Where an interpreter looks for packages.
#pragma once

#include <filesystem>
#include <vector>

namespace devtrace::cli {

// The folders of packages of the environment that `program` (an interpreter, or a script beside one) lies in. They
// have the interpreter's own order: PYTHONPATH, the user's, the environment's and, where a virtual environment takes
// them in, its base's. What .pth files in them add is there, too. Some need not be there. Empty where no Python lies
// beside it. Only files are read: nothing is started.
std::vector<std::filesystem::path> package_folders(const std::filesystem::path& program);

}  // namespace devtrace::cli

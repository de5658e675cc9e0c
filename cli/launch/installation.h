// Where the parts that the command preloads lie: beside it in a build folder, or in lib/devtrace of an installation.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace devtrace::cli {

// This very command.
std::filesystem::path own_command();

// The folder of the Python package `devtrace`, of `make install` and in a source tree; empty where pip has put it
// among the interpreter's own packages.
std::filesystem::path find_python_package();

// libdevtrace.so: $DEVTRACE_LIBRARY when set, else found relative to this executable. Throws Failure when there is
// none.
std::filesystem::path find_library();

// The library by which a trial reads other text than lies on disk (fix/overlay), and the folder of the Python that
// makes the candidates. Throws Failure when there is none.
std::filesystem::path find_overlay();
std::filesystem::path find_edits();

struct SimulatedLibraries {
  std::filesystem::path folder;
  std::vector<std::filesystem::path> preload;  // in the order of LD_PRELOAD
};
// The stubs of simulate/ for programs of that CUDA version (12 or 13), from their preload.list. Throws Failure when
// it or one of its files is missing.
SimulatedLibraries find_simulated_libraries(int cuda);

}  // namespace devtrace::cli

// Where a program lies, and which CUDA it was built for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace devtrace::cli {

// Of a name as typed, looked up in PATH; empty where there is none. Symbolic links stay: a virtual environment's
// interpreter is one to the system's.
std::filesystem::path find_program(const std::string& program);

// The interpreter that is meant where none is named: the active environment's, else python3. As typed, and maybe none.
std::string usual_python();

// The major version (12, 13) of the CUDA runtime that a program is linked to or has inside it. Else of the one that the
// PyTorch, or without PyTorch the CuPy, beside its interpreter names. `command` is as typed, its words looked up in
// PATH; an interpreter's packages are those of package_folders().
// A program that starts another one (`nice -n 5 python`, a shell script, `uv run`): a later word that is a program.
// Else the environment that is active, or lies in the project's folder. 0 when there is none, or it is not for CUDA.
// Only files are read: nothing is started.
int cuda_of_command(const std::vector<std::string>& command);

}  // namespace devtrace::cli

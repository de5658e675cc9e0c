#include "cli/launch/program_cuda.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "cli/launch/package_folders.h"
#include "cli/launch/search_path.h"
#include "simulate/static_runtime/runtime_copy.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

// Where the command lies. Symbolic links stay: a virtual environment's interpreter is one to the system's.
fs::path find_program(const std::string& program) {
  std::error_code error;
  if (program.find('/') != program.npos) return fs::absolute(program, error);
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : folders_of(path ? path : "/usr/local/bin:/usr/bin:/bin"))
    if (const fs::path candidate = fs::path(folder) / program; fs::is_regular_file(candidate, error))
      return fs::absolute(candidate, error);
  return {};
}

// "cuda: Optional[str] = '12.8'" of torch/version.py → 12.
int major_in(const fs::path& version) {
  std::ifstream in(version);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("cuda", 0) != 0) continue;
    const size_t quote = line.find_first_of("'\"");
    return quote == line.npos ? 0 : std::atoi(line.c_str() + quote + 1);
  }
  return 0;
}

// "cupy_cuda12x-14.2.0.dist-info" → 12.
int major_of_cupy(const fs::path& packages) {
  constexpr std::string_view kBegin = "cupy_cuda";
  std::error_code error;
  for (fs::directory_iterator each(packages, error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with(kBegin) && name.ends_with(".dist-info")) return std::atoi(name.c_str() + kBegin.size());
  }
  return 0;
}

int cuda_of_program(const fs::path& program) {
  if (const int major = simulate::static_runtime::find_runtime_copy(program.string()).major) return major;
  const std::vector<fs::path> folders = package_folders(program);
  for (const fs::path& packages : folders)
    if (const int major = major_in(packages / "torch/version.py")) return major;
  for (const fs::path& packages : folders)
    if (const int major = major_of_cupy(packages)) return major;
  return 0;
}

// The environments that launchers use, likeliest first, each as its interpreter.
std::vector<fs::path> interpreters_of_launchers(const fs::path& launcher) {
  std::vector<fs::path> found;
  const auto named = [&](const char* variable) {
    if (const char* prefix = std::getenv(variable); prefix && *prefix) found.push_back(fs::path(prefix) / "bin/python");
  };
  const auto in_project = [&] {
    std::error_code error;
    for (fs::path folder = fs::current_path(error); !folder.empty(); folder = folder.parent_path()) {
      if (fs::is_directory(folder / ".venv", error)) return found.push_back(folder / ".venv/bin/python");
      if (folder == folder.root_path()) return;
    }
  };
  if (launcher.filename() == "uv") {  // which asks a project first, and a shell's environment where there is none
    named("UV_PROJECT_ENVIRONMENT");
    in_project();
  }
  named("VIRTUAL_ENV");
  named("CONDA_PREFIX");
  for (const char* python : {"python3", "python"})
    if (const fs::path program = find_program(python); !program.empty()) found.push_back(program);
  in_project();
  return found;
}

}  // namespace

int cuda_of_command(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    const fs::path program = find_program(word);
    std::error_code error;
    if (program.empty() || !fs::is_regular_file(program, error) || access(program.c_str(), X_OK)) continue;
    if (const int major = cuda_of_program(program)) return major;
  }
  for (const fs::path& python : interpreters_of_launchers(command.front()))
    if (const int major = cuda_of_program(python)) return major;
  return 0;
}

}  // namespace devtrace::cli

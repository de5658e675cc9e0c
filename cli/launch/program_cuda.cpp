#include "cli/launch/program_cuda.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "simulate/static_runtime/runtime_copy.h"

namespace devtrace::cli {
namespace {

// Of a list as PATH and PYTHONPATH are. An empty place, which means the folder that a program is started in, is left
// out.
std::vector<std::string_view> folders_of(std::string_view list) {
  std::vector<std::string_view> folders;
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    if (end > 0) folders.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

namespace fs = std::filesystem;

// Of pyvenv.cfg, "key = value" a line; empty where there is none.
std::map<std::string, std::string, std::less<>> settings_of_environment(const fs::path& prefix) {
  std::map<std::string, std::string, std::less<>> settings;
  std::ifstream in(prefix / "pyvenv.cfg");
  for (std::string line; std::getline(in, line);)
    if (const size_t equals = line.find('='); equals != line.npos)
      settings.emplace(trimmed(line.substr(0, equals)), trimmed(std::string_view(line).substr(equals + 1)));
  return settings;
}

class Folders {
 public:
  // Each `python3…` in it, with those of its packages.
  bool add_library(const fs::path& lib) {
    bool any = false;
    std::error_code error;
    for (fs::directory_iterator each(lib, error), end; !error && each != end; each.increment(error)) {
      if (!each->path().filename().string().starts_with("python3")) continue;
      any = true;
      for (const char* packages : {"site-packages", "dist-packages"}) add_site(each->path() / packages);
    }
    return any;
  }

  bool add_prefix(const fs::path& prefix) {
    bool any = false;
    for (const char* lib : {"lib", "lib64"}) any = add_library(prefix / lib) || any;
    return any;
  }

  void add(const fs::path& folder) { found_.push_back(folder); }
  std::vector<fs::path> take() { return std::move(found_); }

 private:
  void add_site(const fs::path& site) {
    add(site);
    std::error_code error;
    for (fs::directory_iterator each(site, error), end; !error && each != end; each.increment(error)) {
      if (each->path().extension() != ".pth") continue;
      std::ifstream in(each->path());
      for (std::string line; std::getline(in, line);)
        if (const std::string_view named = trimmed(line); !named.empty() && fs::is_directory(site / named, error))
          add(site / named);
    }
  }

  std::vector<fs::path> found_;
};

void add_python_path(Folders& folders) {
  const char* const path = std::getenv("PYTHONPATH");
  for (const std::string_view folder : folders_of(path ? path : "")) folders.add(folder);
}

void add_users(Folders& folders) {
  if (const char* none = std::getenv("PYTHONNOUSERSITE"); none && *none) return;
  const char* const base = std::getenv("PYTHONUSERBASE");
  const char* const home = std::getenv("HOME");
  if (base && *base)
    folders.add_library(fs::path(base) / "lib");
  else if (home && *home)
    folders.add_library(fs::path(home) / ".local/lib");
}

// Debian's pip installs beside its interpreter's own folder.
std::vector<fs::path> prefixes_of(const fs::path& prefix) {
  return prefix == "/usr" || prefix == "/" ? std::vector<fs::path>{"/usr/local", "/usr"} : std::vector{prefix};
}

// The folders of packages of the environment that `program` (an interpreter, or a script beside one) lies in. They
// have the interpreter's own order: PYTHONPATH, the user's, the environment's and, where a virtual environment takes
// them in, its base's. What .pth files in them add is there, too. Some need not be there. Empty where no Python lies
// beside it. Only files are read: nothing is started.
std::vector<fs::path> package_folders(const fs::path& program) {
  const fs::path prefix = program.parent_path().parent_path();
  const auto settings = settings_of_environment(prefix);
  const auto setting = [&](std::string_view key) {
    const auto found = settings.find(key);
    return found == settings.end() ? std::string() : found->second;
  };
  const bool with_base = setting("include-system-site-packages") == "true";
  Folders folders;
  add_python_path(folders);
  if (settings.empty() || with_base) add_users(folders);
  bool any = false;
  for (const fs::path& each : prefixes_of(prefix)) any = folders.add_prefix(each) || any;
  if (!any) return {};
  if (with_base)
    for (const fs::path& each : prefixes_of(fs::path(setting("home")).parent_path())) folders.add_prefix(each);
  return folders.take();
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

fs::path find_program(const std::string& program) {
  std::error_code error;
  if (program.find('/') != program.npos) return fs::absolute(program, error);
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : folders_of(path ? path : "/usr/local/bin:/usr/bin:/bin"))
    if (const fs::path candidate = fs::path(folder) / program; fs::is_regular_file(candidate, error))
      return fs::absolute(candidate, error);
  return {};
}

std::string usual_python() {
  const char* const active = std::getenv("VIRTUAL_ENV");
  return active && *active ? (fs::path(active) / "bin/python").string() : "python3";
}

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

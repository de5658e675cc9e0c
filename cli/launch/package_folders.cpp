#include "cli/launch/package_folders.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cli/launch/search_path.h"
#include "common/text.h"

namespace devtrace::cli {
namespace {

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

}  // namespace

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

}  // namespace devtrace::cli

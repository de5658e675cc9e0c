#include "cli/launch/installation.h"

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libdevtrace.so";
constexpr const char* kOverlay = "fix/overlay.so";
constexpr const char* kEdits = "fix/edits";

fs::path own_folder() {
  return own_command().parent_path();
}

fs::path find_beside(std::string_view what, const std::vector<fs::path>& candidates, std::string_view advice) {
  std::string looked;
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    if (fs::exists(candidate, error)) return fs::weakly_canonical(candidate);
    looked += fmt::format("{}{}", looked.empty() ? "" : ", ", candidate.lexically_normal().string());
  }
  throw Failure(kBadUsage, fmt::format("{} was not found (looked for {}); {}", what, looked, advice));
}

}  // namespace

fs::path own_command() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw Failure(kBadUsage,
                  fmt::format("cannot find out where this command lies: /proc/self/exe: {}", error.message()));
  return executable;
}

fs::path find_python_package() {
  for (const char* const folder : {"../lib/devtrace/python", "../python"}) {
    std::error_code error;
    if (const fs::path found = own_folder() / folder; fs::exists(found / "devtrace/__init__.py", error))
      return fs::weakly_canonical(found);
  }
  return {};
}

fs::path find_library() {
  if (const char* given = std::getenv("DEVTRACE_LIBRARY"); given && *given) {
    std::error_code error;
    if (!fs::is_regular_file(given, error))
      throw Failure(kBadUsage, fmt::format("DEVTRACE_LIBRARY={}: no such file", given));
    return fs::absolute(given);
  }
  const fs::path here = own_folder();
  return find_beside(kLibrary, {here / kLibrary, here / "../lib/devtrace" / kLibrary, here / "../lib" / kLibrary},
                     "build it with make, or say where it is in DEVTRACE_LIBRARY");
}

fs::path find_overlay() {
  const fs::path here = own_folder();
  return find_beside(kOverlay, {here / kOverlay, here / "../lib/devtrace" / kOverlay}, "build it with make");
}

fs::path find_edits() {
  const fs::path here = own_folder();
  return find_beside(kEdits, {here / kEdits, here / "../lib/devtrace" / kEdits}, "build it with make");
}

SimulatedLibraries find_simulated_libraries(int cuda) {
  const fs::path here = own_folder();
  const std::string name = cuda == 12 ? "simulate/cuda12/preload.list" : "simulate/preload.list";
  const fs::path list = find_beside(name, {here / name, here / "../lib/devtrace" / name},
                                    cuda == 12 ? "the program is for CUDA 12: build the simulated libraries "
                                                 "for it with make simulate-cuda12"
                                               : "build the simulated libraries with make");
  SimulatedLibraries found;
  found.folder = list.parent_path();
  std::ifstream in(list);
  for (std::string line; std::getline(in, line);) {
    const std::string_view name = trimmed(line);
    if (name.empty() || name.starts_with('#')) continue;
    const fs::path library = found.folder / name;
    std::error_code error;
    if (!fs::exists(library, error))
      throw Failure(kBadUsage, fmt::format("{} names {}, which does not exist; build again with make", list.string(),
                                           library.string()));
    found.preload.push_back(fs::weakly_canonical(library));  // simulate/dlopen knows them by their folder
  }
  if (found.preload.empty())
    throw Failure(kBadUsage, fmt::format("{} names no library; build again with make", list.string()));
  return found;
}

}  // namespace devtrace::cli

#include "cli/fix/build.h"

#include <fstream>
#include <string_view>

#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {

namespace fs = std::filesystem;

namespace {

bool is_object_file(const fs::path& file) {
  char magic[4] = {};
  std::ifstream(file, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "\177ELF";
}

}  // namespace

std::string build_of(const std::vector<std::string>& words, const fs::path& folder) {
  const fs::path program = fs::absolute(folder / words[0]).lexically_normal();
  const fs::path inside = program.lexically_relative(folder);
  std::error_code ignored;
  // An environment in the folder: its Python is often a link, and what it runs is not built.
  const fs::path file = fs::weakly_canonical(program, ignored);
  if (*file.lexically_relative(folder).begin() == ".." || file.filename().string().starts_with("python")) return {};
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name, ignored); };
  if (words[0].find('/') == std::string::npos || inside.empty() || *inside.begin() == ".." || !is_object_file(program))
    return {};
  if (has("Makefile") || has("makefile") || has("GNUmakefile")) return "make";
  const std::string where = shell_quoted(inside.has_parent_path() ? inside.parent_path().string() : "build");
  if (has("CMakeLists.txt")) return fmt::format("cmake -S . -B {0} && cmake --build {0}", where);
  return {};
}

}  // namespace devtrace::cli

#include "report/check/repository.h"

#include <algorithm>
#include <iterator>

namespace devtrace::report::check {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 20'000;   // remembered
constexpr ptrdiff_t kMostFolders = 32;  // folders of a path whose end is looked for

bool installed(std::string_view file) {
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "/lib/python3."})
    if (file.find(part) != file.npos) return true;
  return file.starts_with('<');  // <frozen importlib>, <string>
}

fs::path git_top(const fs::path& from) {
  std::error_code error;
  for (fs::path folder = from;; folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", error)) return folder;
    if (folder == folder.parent_path()) return from;
  }
}

// The path of `file` from `root` on; nothing when it leads out of it.
std::optional<std::string> below(const fs::path& file, const fs::path& root) {
  const fs::path relative = file.lexically_normal().lexically_relative(root);
  if (relative.empty() || relative == "." || *relative.begin() == "..") return std::nullopt;
  return relative.generic_string();
}

}  // namespace

Repository::Repository(const std::string& root) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  root_ = fs::weakly_canonical(root.empty() ? git_top(here) : fs::path(root), error);
  if (error) root_ = here;
}

std::optional<std::string> Repository::path_of(std::string_view file, std::string_view cwd) {
  if (file.empty() || file.size() > 4096 || cwd.size() > 4096 || file.find('\0') != file.npos ||
      cwd.find('\0') != cwd.npos || installed(file))
    return std::nullopt;
  std::string key = std::string(cwd) + '\0' + std::string(file);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  auto found = look_up(std::string(file), std::string(cwd));
  if (known_.size() < kMostFiles) known_.emplace(std::move(key), found);
  return found;
}

std::optional<std::string> Repository::look_up(const std::string& file, const std::string& cwd) const {
  const fs::path whole = fs::path(file).is_absolute() ? fs::path(file) : fs::path(cwd) / file;
  if (auto found = below(whole, root_)) return found;
  std::error_code error;
  // By the longest end of its path that exists here: the log was written in another checkout of the repository.
  const fs::path normal = whole.lexically_normal();
  const ptrdiff_t parts = std::distance(normal.begin(), normal.end());
  for (auto part = std::next(normal.begin(), std::max<ptrdiff_t>(0, parts - kMostFolders)); part != normal.end();
       ++part) {
    if (part->empty() || *part == "/") continue;
    fs::path rest;
    for (auto each = part; each != normal.end(); ++each) rest /= *each;
    if (*rest.begin() == "..") continue;
    if (fs::is_regular_file(root_ / rest, error)) return rest.generic_string();
  }
  return std::nullopt;
}

}  // namespace devtrace::report::check

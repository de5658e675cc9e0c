// Which file of the repository a frame of a log means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace devtrace::report::check {

// Where in the repository a frame lies: a path from its root. Files are looked for there, so that a log that was
// written elsewhere finds its lines.
class Repository {
 public:
  // `root`: empty for the git work tree around the current directory, else the current directory.
  explicit Repository(const std::string& root);
  const std::filesystem::path& root() const { return root_; }
  // Nothing when the file is none of the repository's, or belongs to an installed package.
  std::optional<std::string> path_of(std::string_view file, std::string_view cwd);

 private:
  std::optional<std::string> look_up(const std::string& file, const std::string& cwd) const;
  std::filesystem::path root_;
  std::unordered_map<std::string, std::optional<std::string>> known_;
};

}  // namespace devtrace::report::check

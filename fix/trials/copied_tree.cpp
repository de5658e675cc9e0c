#include "fix/trials/copied_tree.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common/format.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kMostBytes = uintmax_t{1} << 30;

bool is_left_out(const fs::directory_entry& folder) {
  std::error_code ignored;
  return folder.path().filename() == ".git" || fs::exists(folder.path() / "CMakeCache.txt", ignored);
}

}  // namespace

void copy_tree(const fs::path& tree, const fs::path& to, const Texts& texts) {
  uintmax_t bytes = 0;
  fs::create_directories(to);
  for (auto each = fs::recursive_directory_iterator(tree, fs::directory_options::skip_permission_denied);
       each != fs::recursive_directory_iterator(); ++each) {
    const fs::path copy = to / each->path().lexically_relative(tree);
    if (each->is_symlink()) {
      fs::copy_symlink(each->path(), copy);
    } else if (each->is_directory()) {
      if (is_left_out(*each))
        each.disable_recursion_pending();
      else
        fs::create_directories(copy);
    } else if (each->is_regular_file()) {
      bytes += each->file_size();
      if (bytes > kMostBytes)
        throw std::runtime_error(fmt::format(
            "{} has more than 1 GiB: start devtrace fix in the folder of the program alone", tree.string()));
      fs::copy_file(each->path(), copy);
      fs::last_write_time(copy, each->last_write_time());
    }
  }
  for (const auto& [path, text] : texts) {
    const fs::path inside = fs::path(path).lexically_relative(tree);
    if (inside.empty() || *inside.begin() == "..")
      throw std::runtime_error(fmt::format("{} lies outside of {}, which is what is built", path, tree.string()));
    std::ofstream(to / inside, std::ios::binary) << text;
  }
}

void name_original_in_logs(const fs::path& folder, const fs::path& copy, const fs::path& tree) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(in), {});
    const std::string from = copy.string() + '/', by = tree.string() + '/';
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += by.size()) text.replace(at, from.size(), by);
    std::ofstream(entry.path(), std::ios::binary) << text;
  }
}

}  // namespace devtrace::fix

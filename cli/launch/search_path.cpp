#include "cli/launch/search_path.h"

#include <algorithm>

namespace devtrace::cli {

std::vector<std::string_view> folders_of(std::string_view list) {
  std::vector<std::string_view> folders;
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    if (end > 0) folders.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

}  // namespace devtrace::cli

#include "cli/launch/not_computed.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "common/format.h"

namespace devtrace::cli {

// A line: the process and a name, or no name once the process has said them itself.
void list_not_computed(const std::string& path) {
  std::map<std::string, std::set<std::string>> by_process;
  std::ifstream file(path);
  for (std::string process, name; file >> process && std::getline(file, name);)
    if (name.empty())
      by_process.erase(process);
    else
      by_process[process].insert(name.substr(1));
  constexpr size_t kMost = 20;
  for (const auto& [process, names] : by_process) {
    fmt::print(stderr, "devtrace: not computed in process {}, which ended without saying so:\n", process);
    size_t said = 0;
    for (const std::string& name : names)
      if (said++ < kMost) fmt::print(stderr, "devtrace:   {}\n", name);
    if (said > kMost) fmt::print(stderr, "devtrace:   and {} more\n", said - kMost);
  }
}

}  // namespace devtrace::cli

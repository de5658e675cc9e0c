#include "process/maps.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace devtrace::process {

std::optional<Mapping> parse_mapping(const std::string& line) {
  Mapping mapping;
  std::istringstream in(line);
  std::string range, permissions, device;
  uint64_t inode = 0;
  if (!(in >> range >> permissions >> std::hex >> mapping.offset >> device >> std::dec >> inode)) return std::nullopt;
  const size_t dash = range.find('-');
  if (dash == range.npos || permissions.size() < 3) return std::nullopt;
  mapping.begin = std::strtoull(range.c_str(), nullptr, 16);
  mapping.end = std::strtoull(range.c_str() + dash + 1, nullptr, 16);
  mapping.executable = permissions[2] == 'x';
  std::getline(in >> std::ws, mapping.path);
  return mapping;
}

std::vector<Mapping> mappings_of(pid_t process) {
  std::vector<Mapping> found;
  std::ifstream in("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(in, line);)
    if (auto mapping = parse_mapping(line); mapping && !mapping->path.empty()) found.push_back(std::move(*mapping));
  return found;
}

uintptr_t own_stack(pid_t process, uintptr_t stack_pointer, uintptr_t thread_pointer) {
  std::ifstream in("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(in, line);) {
    const auto mapping = parse_mapping(line);
    if (!mapping || stack_pointer < mapping->begin || stack_pointer >= mapping->end) continue;
    const bool own = mapping->path == "[stack]" ||
                     (mapping->path.empty() && stack_pointer <= thread_pointer && thread_pointer < mapping->end);
    return own ? mapping->begin : 0;
  }
  return 0;
}

}  // namespace devtrace::process

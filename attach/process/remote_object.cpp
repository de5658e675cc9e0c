#include "attach/process/remote_object.h"

#include <map>

namespace devtrace::attach {

Range RemoteObject::symbol(const std::string& name) const {
  const auto found = section_.symbol(name.c_str());
  if (!found || ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC) return {};
  const uintptr_t begin = section_.base() + found->st_value;
  return {begin, begin + found->st_size};
}

std::vector<LoadedObject> loaded_objects(const std::vector<process::Mapping>& mappings) {
  // A file may be mapped besides, only to be read, as who looks symbols up does: the beginning that belongs to the code
  // is the last one below it.
  std::map<std::string, LoadedObject> by_path;
  std::map<std::string, uintptr_t> beginnings;
  for (const process::Mapping& each : mappings) {
    if (each.path.empty() || (each.path[0] != '/' && each.path != "[vdso]")) continue;
    LoadedObject& object = by_path[each.path];
    object.path = each.path;
    if (each.offset == 0) beginnings[each.path] = each.begin;
    if (!each.executable) continue;
    if (object.start == 0) object.start = beginnings[each.path];
    object.code.push_back({each.begin, each.end});
  }
  std::vector<LoadedObject> found;
  for (auto& [path, object] : by_path)
    if (object.start != 0 && !object.code.empty()) found.push_back(std::move(object));
  return found;
}

}  // namespace devtrace::attach

// An ELF object in another process, read where its loader mapped it. Its file may have been replaced, or lie in another
// container, and a tool's own libc is not the target's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "binary/elf/dynamic_section.h"
#include "process/maps.h"
#include "process/memory.h"

namespace devtrace::attach {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t address) const { return address - begin < end - begin; }
};

class RemoteObject {
 public:
  // `start`: where the file's beginning is mapped.
  RemoteObject(const process::RemoteMemory& memory, uintptr_t start)
      : section_(elf::dynamic_section_at(memory, start)) {}

  // The function or variable that it exports under the name, in the default version; empty: none. An indirect function
  // (IFUNC) is not answered.
  Range symbol(const std::string& name) const;

 private:
  elf::DynamicSection<process::RemoteMemory> section_;
};

// The mapped ELF objects.
struct LoadedObject {
  std::string path;
  uintptr_t start = 0;      // where the file's beginning is mapped
  std::vector<Range> code;  // what of it can be executed
  std::string file() const { return path.substr(path.rfind('/') + 1); }
};
std::vector<LoadedObject> loaded_objects(const std::vector<process::Mapping>& mappings);

}  // namespace devtrace::attach

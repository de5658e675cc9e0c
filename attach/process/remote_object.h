// An ELF object in another process, read where its loader mapped it: its file may have been replaced, or lie in another
// container, and a tool's own libc is not the target's.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "attach/process/process.h"
#include "attach/process/remote_memory.h"

namespace devtrace::attach {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t address) const { return address - begin < end - begin; }
};

class RemoteObject {
 public:
  // `start`: where the file's beginning is mapped.
  RemoteObject(const RemoteMemory& memory, uintptr_t start);

  // The function or variable that it exports under the name, in the default version; empty: none. An indirect function
  // (IFUNC) is not answered.
  Range symbol(std::string_view name) const;

 private:
  bool is(uint32_t index, std::string_view name, Elf64_Sym& symbol) const;

  const RemoteMemory& memory_;
  uintptr_t base_ = 0;
  uintptr_t symbols_ = 0, names_ = 0, versions_ = 0, hashes_ = 0;
};

// The mapped ELF objects.
struct LoadedObject {
  std::string path;
  uintptr_t start = 0;      // where the file's beginning is mapped
  std::vector<Range> code;  // what of it can be executed
  std::string file() const { return path.substr(path.rfind('/') + 1); }
};
std::vector<LoadedObject> loaded_objects(const std::vector<Mapping>& mappings);

}  // namespace devtrace::attach

// The files that hold what -gsplit-dwarf left out of a program: a .dwo for each object, or all of them in one .dwp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "binary/dwarf/unit.h"
#include "binary/elf/file.h"

namespace devtrace::dwarf {

// Where one split unit lies. The file is held as long as its sections are read.
struct SplitUnit {
  std::unique_ptr<elf::File> file;
  Sections sections;  // those of the file alone
  explicit operator bool() const { return file != nullptr; }
};

// The unit that the skeleton with this id in `module` stands for. It lies in module.dwp, in the file that the skeleton
// names below the folder it was compiled in, or in a file of that name beside the module. One of another build has
// another id.
SplitUnit find_split_unit(const std::string& module, std::string_view comp_dir, std::string_view name, uint64_t id);

// What the index of a .dwp (.debug_cu_index) says of where a unit's parts lie in it: offset and size of each.
struct Contribution {
  uint64_t offset = 0, size = 0;
};
struct PackagedUnit {
  bool found = false;
  Contribution info, abbrev, str_offsets, rnglists;
};
PackagedUnit find_in_index(std::string_view index, uint64_t id);

}  // namespace devtrace::dwarf

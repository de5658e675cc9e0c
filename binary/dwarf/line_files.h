// The files that a line table names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binary/dwarf/unit.h"

namespace devtrace::dwarf {

// File `index` of the table at `offset` of .debug_line, as a path below `comp_dir` where it is none from the root;
// empty where there is none.
std::string file_of(const Sections& sections, uint64_t offset, uint64_t index, std::string_view comp_dir);

}  // namespace devtrace::dwarf

// What lies at an offset of a structure, by the debug information of a program or library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace devtrace::dwarf {

// `rows[2].data` of what lies `offset` bytes into the structure or class `type`, as C++ writes it. Empty where the
// module does not describe it, describes it in two ways, or is split. Takes milliseconds.
std::string member_at(const std::string& module, std::string_view type, uint64_t offset);

}  // namespace devtrace::dwarf

// What a kernel's C++ name tells of its parameters.
#pragma once

#include <string>
#include <vector>

namespace devtrace::simulate {

struct ParameterType {
  enum class Constness { unknown, constant, writable };
  // Of what a pointer points to.
  Constness constness = Constness::unknown;
  // Whether addresses may lie there that the kernel writes through: a table of pointers, a structure. Numbers are none.
  bool leads_on = true;
};

// In the order of the parameters, by the kernel's mangled name; empty: it does not tell.
std::vector<ParameterType> signature(const std::string& mangled);

}  // namespace devtrace::simulate

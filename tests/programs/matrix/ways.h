// The ways to come by CUDA's functions. A pass of the matrix takes all of them in one way.
#pragma once

#include <string_view>
#include <vector>

namespace matrix {

struct Way {
  const char* name;
  void (*fill)();  // the pointers in `cuda`
};
const std::vector<Way>& ways();

}  // namespace matrix

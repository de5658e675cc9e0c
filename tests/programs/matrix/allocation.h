// A way to come by memory.
#pragma once

#include <functional>
#include <vector>

#include "tests/programs/matrix/cuda.h"

namespace matrix {

struct Allocation {
  const char* name;
  bool shared;  // every device may read it
  std::function<void*(int device)> make;
};

// Addresses in the middle of what is given out: that a start is known is no proof.
std::vector<Allocation> device_memory();
std::vector<Allocation> shared_memory();

}  // namespace matrix

// Where a kernel's parameter lies.
#pragma once

#include <cstddef>

namespace devtrace::device {

struct Parameter {
  size_t offset = 0, size = 0;  // bytes in the kernel's parameter block
};

}  // namespace devtrace::device

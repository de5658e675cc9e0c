// How a kernel came by an address: which of its parameters, or of its module's variables, leads there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "simulate/common/cuda_headers.h"

namespace devtrace::simulate {

struct KernelParameter {
  size_t offset = 0, bytes = 0;  // in the block of parameters
};
struct KernelVariable {
  std::string_view name;
  uint64_t address = 0;  // on the kernel's device
  size_t bytes = 0;
};

struct Way {
  int parameter = -1;
  size_t in_parameter = 0;
  std::string_view variable;
  int64_t in_memory = -1;  // bytes from where that leads to the word that leads on; -1: it leads there itself
};

// The word nearest below `address`, of those that lie in [begin, address]. They are looked for among the parameters,
// then the variables, then in the memory to which these lead: 64 KiB each, as far as the context may use that.
std::optional<Way> way_to(CUcontext context, uintptr_t begin, uintptr_t address, std::span<const uint8_t> parameters,
                          const std::vector<KernelParameter>& layout, const std::vector<KernelVariable>& variables);

}  // namespace devtrace::simulate

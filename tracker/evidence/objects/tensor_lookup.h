// Who holds the memory at an address: the tensors and arrays that Python frames can reach, by the names by which they
// do. Takes no GIL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/objects/tensor_reader.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::evidence {

struct NamedTensor {
  TensorMetadata tensor;
  struct Name {
    size_t frame;  // index into the frames
    std::string name;
    std::string role;  // docs/reference/log.md
  };
  std::vector<Name> names;   // innermost frame first
  std::optional<Name> best;  // the one of the innermost frame that is no launcher's (PyTorch's, Triton's, CuPy's, …)
  std::string module_path;   // of a parameter or buffer, from the outermost module seen
};

// For each address the tensor whose elements it lies among; nothing where no frame of the calling thread, which are
// `frames`, holds one. `own`: for each frame, whether it is the program's own code. For findings only: milliseconds.
std::vector<std::optional<NamedTensor>> tensors_at(const std::vector<uintptr_t>& addresses,
                                                   const std::vector<stacks::PythonFrame>& frames,
                                                   const std::vector<bool>& own);

}  // namespace devtrace::evidence

// Which tensors an operation was given, and what they are called.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/torch_objects.h"

namespace devtrace::evidence {

struct Name {
  size_t frame;  // index into the frames
  std::string name;
};

struct Operand {
  python::TensorFacts tensor;
  std::string name;  // the best one
  std::string role;  // docs/log.md
  std::vector<Name> names;
  bool odd = false;
  std::string module_path;
  std::string module_class;
  std::string root_class;
  std::string hook;  // accelerate's hook on the owning module
};

struct Wanted {
  uintptr_t odd_data = 0;                  // the data pointer of the tensor that the check stumbled over
  std::vector<std::string> devices_named;  // in the message
  bool direct = true;                      // the innermost frame itself asked for the operation (not autograd's engine)
};

// At most kMostOperands, in the order in which the failing expression mentions them. Empty when Python cannot say.
inline constexpr size_t kMostOperands = 32;
std::vector<Operand> operands(const python::Api& api, const python::Torch& torch, const std::vector<Frame>& frames,
                              const Wanted& wanted);

}  // namespace devtrace::evidence

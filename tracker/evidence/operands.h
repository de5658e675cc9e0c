// Which tensors an operation was given, and what they are called.
#pragma once

#include <cstdint>
#include <set>
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
  // Of an intermediate result only the device is known, and its address where PyTorch's check stumbled over it.
  evidence::TensorFacts tensor;
  std::string expression;  // the text whose result it is, for one that has no name
  std::string name;        // the best one
  std::string role;        // docs/log.md
  std::vector<Name> names;
  bool odd = false;
  std::string module_path;
  std::string module_class;
  std::string root_class;
  std::string hook;        // accelerate's hook on the owning module
  std::string device_map;  // what accelerate's device map says of it: "layers.1: cuda:1", "not in the map"
};

struct Wanted {
  uintptr_t odd_data = 0;                        // the data pointer of the tensor that the check stumbled over
  std::string odd_device;                        // … and where that tensor lies
  std::vector<std::string> devices_named;        // in the message
  std::vector<std::string> devices_of_operands;  // those of which the message says that an operand lies there
  bool direct = true;  // the innermost frame itself asked for the operation (not autograd's engine)
};

struct Operands {
  std::vector<Operand> list;        // at most kMostOperands; those that the expression names come first, in its order
  std::set<std::string> mentioned;  // devices of all tensors that the failing expression mentions, operands or not
};

inline constexpr size_t kMostOperands = 32;
Operands operands(const python::Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames,
                  const Wanted& wanted);

}  // namespace devtrace::evidence

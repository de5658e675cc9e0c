// What a refusal is, from its text and the facts that were gathered. Pure: no log, no Python, no CUDA.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/interface/event_types.h"
#include "tracker/refusals/classify.h"

namespace devtrace::refusals {

struct Operation {
  std::string name, overload;
};

struct Facts {
  struct Operand {
    std::string device;
    bool mismatched = false;  // the one that the check stumbled over
  };
  std::vector<Operand> operands;
  bool complete =
      false;  // these are the operator's arguments, and not what a search among the program's variables found
  std::vector<std::string> named_devices;   // by the call, which gives no tensor there
  std::set<std::string> mentioned_devices;  // of all tensors that the failing expression mentions
  std::vector<std::string> devices;         // of the process; of a message about the number of a device only
  std::string cuda;                         // the thread's current device

  bool raised_by_program = false;        // its own code made the exception
  bool rephrases = false;                // a refusal that is being handled
  std::optional<std::string> swallowed;  // why whoever runs expects the error

  // Names for the operation, the innermost last; each may be empty. Python's are read where it has imported PyTorch.
  bool torch_read = false;
  Operation asked;      // the program's operator, whose kernel in Python asked for another one
  Operation at_work;    // the dispatcher's
  Operation outermost;  // … that the program called; of a message about a generator, which that was given
  std::string jitted;
  Operation calling;   // whose kernel, in Python, refuses
  std::string called;  // the function of the program's own line
};

struct Decision {
  struct Operand {
    size_t index;  // in Facts
    bool mismatched;
  };
  bool refusal = false;  // of where something lies; the rest says nothing otherwise
  std::optional<std::string> note;
  Operation operation;
  std::string method, argument;
  std::vector<Operand> operands;
  std::vector<std::string> devices;
  std::string wanted_device;
  bool handles = false;                // events or streams of two devices met
  std::optional<size_t> device_count;  // it is about the number of a device
};

Decision decide(const events::Refused& refusal, const RefusalMessage& message, const Facts& facts);

// An operator is called so by Python: "aten.add.Tensor".
inline constexpr std::string_view kDotted = "aten.";

}  // namespace devtrace::refusals

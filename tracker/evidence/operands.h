// Which tensors an operation was given, and what they are called.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/holders.h"
#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::evidence {

struct Name {
  size_t frame;  // index into the frames
  std::string name;
};

// A function, or an object, that gave a tensor, and the tensors that it keeps.
struct Giver {
  std::string name;                  // as it is called: `identity_grid`
  std::string kind;                  // function, method, module, partial, object
  std::vector<std::string> devices;  // of a module: where its state lies
  struct Kept {
    std::string name;  // from the source on: `.<closure>.results["a"]`
    TensorFacts tensor;
  };
  std::vector<Kept> keeps;  // those on the result's device, unless registered in a module
};

// When memory came to where it lies, and by which code.
struct Made {
  std::vector<stacks::PythonFrame> stack;  // innermost first
  uint64_t time = 0;                       // nanoseconds since the epoch; 0: not known
  bool moved = false;                      // from another device
};

// The variable or attribute from which the code that made a tensor, or moved it, took the device.
struct DeviceSource {
  std::string name;  // `self.device`
  std::string role;  // docs/reference/log.md
  std::string says;  // "cuda", as the program has it; empty for a number
  // Of an attribute: what has it.
  std::string kind;  // module, object, …
  std::string type;
  std::vector<std::string> devices;  // of a module: where its state lies
};

// A tensor that a module has registered, as an operand of the same shape and type may have been.
struct Registered {
  std::string name;
  TensorFacts tensor;
};

struct Operand {
  // Of an intermediate result only the device is known, and its address where PyTorch's check stumbled over it.
  evidence::TensorFacts tensor;
  std::string expression;  // the text whose result it is, for one that has no name
  std::string name;        // the best one
  std::string role;        // docs/reference/log.md
  std::vector<Name> names;
  bool odd = false;
  std::string module_path;
  std::string module_class;
  std::string root_class;
  std::string hook;        // accelerate's hook on the owning module
  std::string device_map;  // what accelerate's device map says of it: "layers.1: cuda:1", "not in the map"
  std::vector<std::string> root_devices;  // of all state of that outermost module
  std::vector<Chain> held_by;             // who holds it, from as far out as it goes
  std::optional<Giver> given_by;          // of a result that has no name: what the function that gave it holds
  std::string view_of;                    // the registered tensor that it is a view of
  bool generator = false;                 // a torch.Generator, no tensor
  std::optional<DeviceSource> device_from;
  std::vector<Operand> computed_from;  // tensors on its device
  std::vector<Registered> registered;  // those that are like it
  static constexpr size_t kNone = -1;
  size_t source_of = kNone;  // while they are gathered: no operand, but what that one, by its index, was computed from

  // Those of which nothing but the device is known, and perhaps what made it, come from the text and the message alone.
  bool is_object() const { return tensor.object != nullptr; }
  bool is_scalar_on_cpu() const { return is_object() && tensor.device == "cpu" && tensor.shape.empty(); }
  bool is_state() const { return role == "parameter" || role == "buffer"; }
};

// A module whose method is running.
struct RunningModule {
  size_t frame = 0;  // whose `self` it is
  std::string type;
  std::vector<std::string> devices;  // of all its state
  struct Part {
    std::string name;
    std::vector<std::string> devices;
  };
  std::vector<Part> parts;             // of one that lies on several devices
  std::string hook;                    // accelerate's
  std::vector<std::string> skip_keys;  // arguments that the hook leaves where they are
  bool replica = false;
};

// A tensor on no operand's behalf, that the expression of a frame names.
struct Mention {
  size_t frame;
  std::string name;
  std::string device;
};

struct OperandQuery {
  uintptr_t odd_data = 0;                        // the data pointer of the tensor that the check stumbled over
  std::string odd_device;                        // … and where that tensor lies
  std::vector<std::string> devices_named;        // in the message
  std::vector<std::string> devices_of_operands;  // those of which the message says that an operand lies there
  std::string other_device;                      // of a check of one operand against the others: where those lie
  bool generator = false;                        // it is about a random generator
  // The frame whose expression asked for what is refused: 0, unless what raises is Python code that it called.
  size_t asking = 0;
  std::string variable;        // of frame 0, that holds the operand; empty: the expression says it
  bool fake = false;           // fake tensors stand for the program's
  bool all_named = false;      // the message names the device of every operand
  bool on_meta = false;        // tensors without memory are operands as well
  bool none = false;           // no tensor exists
  bool ordinals = false;       // it is about the number of a device
  std::vector<PyObject*> met;  // the operands, where they are known by other means; they live as long as this
  bool direct = true;          // the innermost frame itself asked for the operation (not autograd's engine)
  std::function<std::optional<Made>(uintptr_t storage)> made;
  const SourceReader* sources = nullptr;
  std::string standard_library;  // the interpreter's folder of it
};

struct Operands {
  // At most kMostOperands; those that the expression names come first, in its order.
  std::vector<Operand> list;
  std::set<std::string> mentioned;  // devices of all tensors that the failing expression mentions, operands or not
  std::vector<Mention> mentions;
  std::vector<RunningModule> modules;
  std::vector<std::string> state_devices;  // of all registered tensors within reach
  std::vector<std::string> named_devices;  // that the call names without giving a tensor there, once each, in order
};

inline constexpr size_t kMostOperands = 32;
Operands operands(const python::Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames,
                  const OperandQuery& query);

}  // namespace devtrace::evidence

// Which tensors an operation was given, and what they are called.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/holders.h"
#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/evidence/origins/stacks.h"

namespace devtrace::evidence {

// An operand while it is gathered: what is told of it, and what it is.
struct Operand : finding::Operand {
  PyObject* object = nullptr;  // borrowed: alive as long as the frames are. Null for what is known from the text and
                               // the message alone: its device, and perhaps what made it
  uintptr_t data = 0;          // where its first element lies; of a temporary where PyTorch's check stumbled over it
  uintptr_t storage = 0;
  static constexpr size_t kNone = -1;
  size_t source_of = kNone;  // no operand, but what that one, by its index, was computed from

  void take(const TensorFacts& facts);
  bool is_scalar_on_cpu() const { return object && on_cpu() && shape.empty(); }
  bool has_role_of_state() const { return role == "parameter" || role == "buffer"; }
};

struct OperandQuery {
  uintptr_t mismatched_data = 0;                 // the data pointer of the tensor that the check stumbled over
  std::string mismatched_device;                 // … and where that tensor lies
  std::vector<std::string> devices_named;        // in the message
  std::vector<std::string> devices_of_operands;  // those of which the message says that an operand lies there
  std::string other_device;                      // of a check of one operand against the others: where those lie
  std::string drawn_on;  // of a random generator: where the numbers that it was asked for should lie
  // The frame whose expression asked for what is refused: 0, unless what raises is Python code that it called.
  size_t asking = 0;
  std::string variable;        // of frame 0, that holds the operand; empty: the expression says it
  bool fake = false;           // fake tensors stand for the program's
  bool all_named = false;      // the message names the device of every operand
  bool on_meta = false;        // tensors without memory are operands as well
  bool none = false;           // no tensor exists
  bool ordinals = false;       // it is about the number of a device
  std::vector<PyObject*> met;  // the operands, where they are known by other means; they live as long as this
  // Of a gradient of which nothing is known but where it lies; and what the `backward` that gave it returns as that.
  std::string gradient_device, gradient_expression;
  bool raised = false;  // it is an exception that Python makes, perhaps after the operation
  bool direct = true;   // the innermost frame itself asked for the operation (not autograd's engine)

  bool generator() const { return !drawn_on.empty(); }
};

struct Operands {
  // At most kMostOperands; those that the expression names come first, in its order.
  finding::List<finding::Operand> list;
  std::set<std::string> mentioned;  // devices of all tensors that the failing expression mentions, operands or not
  std::vector<std::string> named_devices;  // that the call names without giving a tensor there, once each, in order
};

inline constexpr size_t kMostOperands = 32;
// What stands around them goes into `facts`.
Operands operands(const python::Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames,
                  const OperandQuery& query, const SourceText& source, finding::Refusal& facts);

}  // namespace devtrace::evidence

// Which tensors a C++ call of one of PyTorch's operators was given, where no Python frame says it.
//
// The operator's function, at::_ops::add_Tensor::call, is on the stack: its name has the types of its parameters, its
// first instructions say where it keeps them, and libunwind restores these places. A word counts as a tensor only if it
// leads to an ordinary TensorImpl; whatever does not fit is left out.
#pragma once

#include <string>
#include <vector>

#include "tracker/evidence/objects/tensor_reader.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::evidence {

struct OperatorArgument {
  size_t position = 0;     // in the operator's schema, from 0
  std::string name;        // there; empty where the schema was not found
  int element = -1;        // of a list
  uintptr_t identity = 0;  // the TensorImpl
  std::string device;      // "cuda:1"
  TensorMetadata tensor;
};

struct OperatorCall {
  std::string operation, overload;  // "add", "Tensor"
  std::vector<std::string> parameters;
  std::vector<OperatorArgument> tensors;
};

// Of every operator on the stack, innermost first; those whose arguments could not be read have no tensors.
std::vector<OperatorCall> operator_calls(const std::vector<stacks::NativeFrame>& frames);

// {"add", "Tensor", {"self", "other", "alpha"}} for the structure add_Tensor and the text
// "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
struct Schema {
  std::string operation, overload;
  std::vector<std::string> parameters, types;
};
Schema parse_schema(std::string_view text);

// How a parameter of a C++ type is passed.
struct Passing {
  int registers = 1;  // of the six for integers
  int stack_words = 0;
  enum class Holds { other, tensor, optional_tensor, tensors, list_of_tensors, list_reference } holds = Holds::other;
};
Passing passing_of(std::string_view type);

}  // namespace devtrace::evidence

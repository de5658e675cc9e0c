// What PyTorch's functions do with devices: the table in torch_functions.inc, by name.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace devtrace::torch_functions {

enum Traits : unsigned {
  kMakes = 1,        // a tensor that nothing else has the memory of
  kTakesDevice = 2,  // as device=
  kOfSizes = 4,      // is given numbers, not tensors
  kRandom = 8,       // another device's generator gives other numbers
  kStays = 16,       // the result lies where the first argument lies, or what the method is called on
  kJoins = 32,       // the result lies where the arguments lie; one without dimensions may lie on the CPU
  kLeaves = 64,      // the result lies elsewhere, or is no tensor
  kMethod = 128,     // of tensors alone
};

struct Function {
  std::string_view name;
  unsigned traits;

  bool is(unsigned all) const { return (traits & all) == all; }
  bool follows_operands() const { return traits & (kStays | kJoins); }
};

inline constexpr Function kTable[] = {
#define TORCH_FUNCTION(name, traits) {#name, traits},
#include "common/torch_functions.inc"
#undef TORCH_FUNCTION
};

// PyTorch, as most programs import it, and as some do: `import torch as th`.
inline constexpr std::string_view kModules[] = {"torch", "th"};

// Is that PyTorch's name?
inline bool is_torch(std::string_view name) {
  return std::find(std::begin(kModules), std::end(kModules), name) != std::end(kModules);
}

// Of what begins with that name, as `torch.device(0)`, the rest. Empty: it begins with another one.
inline std::string_view after_torch(std::string_view text) {
  const size_t dot = text.find('.');
  return dot != text.npos && is_torch(text.substr(0, dot)) ? text.substr(dot + 1) : std::string_view();
}

// Without traits for a function that the table does not have.
inline Function function_named(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kTable), std::end(kTable), [&](const Function& f) { return f.name == name; });
  return found == std::end(kTable) ? Function{name, 0} : *found;
}

}  // namespace devtrace::torch_functions

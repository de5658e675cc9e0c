// The messages of refusals that say more than that devices differ: which operation, on which device its operand lies,
// and which one was wanted. One table for all of them, whoever raises: PyTorch's C++, its Python, or a library.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tracker/interface/event_types.h"

namespace devtrace::refusals {

struct KnownRefusal {
  // The message's beginning. `{at}`: the device on which the operand lies; `{wanted}`: the one where it should;
  // `{operation}`: an operator; `{}`: anything. `{at#}`, `{wanted#}`: the index of a CUDA device, as digits or (of
  // CUDA events, by an oversight of PyTorch's) as one character of that value.
  std::string_view pattern;
  std::string_view operation;  // its public name; empty: what the program's own line calls
  std::string_view at;         // where the pattern does not say it
  std::string_view wanted;
  std::string_view operand;   // the variable of the raising function that holds the operand; empty: as the line says it
  std::string_view argument;  // what the operation calls that operand
  bool no_tensor = false;     // there is no operand yet
  bool ordinal = false;       // it is about the number of a device
  bool handles = false;       // a refusal only where events or streams of two devices meet
};

struct KnownMatch {
  const KnownRefusal* row = nullptr;
  std::string at, wanted;  // devices; empty: not known
  std::string operation;
};

std::optional<KnownMatch> known_refusal(std::string_view message);

// Of an error that states by itself what its message leaves out.
std::optional<KnownMatch> stated_refusal(const events::Refused& refusal);

// Is it a message of the catalogue (docs/reference/device-errors.md): one that PyTorch or a library raises because of
// where something lies? It does not say what lies where.
bool is_catalogued(std::string_view message);

}  // namespace devtrace::refusals

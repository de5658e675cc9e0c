// What an error says of devices: out of its text, by one table (patterns.inc), and out of what it states besides.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/interface/event_types.h"

namespace devtrace::refusals {

enum class Likelihood {
  none,      // an ordinary error: nothing more is read
  possible,  // speaks of devices: a refusal if the operands of the failing expression really are on different devices
  certain,   // one of PyTorch's device checks
};

// What a row of the table says of a refusal besides its text.
struct KnownRefusal {
  std::string_view operation = {};  // its public name; empty: what the program's own line calls
  std::string_view at = {};         // where the operand lies, if the text does not say it
  std::string_view wanted = {};     // and where it should
  std::string_view operand = {};    // the variable of the raising function that holds it; empty: as the line says it
  std::string_view argument = {};   // what the operation calls it
  bool no_tensor = false;           // there is no operand yet
  bool ordinal = false;             // it is about the number of a device
  bool of_group = false;            // a collective: it wants its operands on the device of the process group
  bool handles = false;             // a refusal only where events or streams of two devices meet
};

struct KnownMatch {
  const KnownRefusal* row = nullptr;
  std::string at, wanted;  // devices; empty: not known
  std::string operation;
  std::optional<size_t> gradient = {};  // it is about this one of what an autograd node, or the program, gave
};

struct RefusalMessage {
  Likelihood likelihood = Likelihood::none;

  // In order of appearance and once each: `cuda:1`, `cpu`, `torch.cuda.FloatTensor` (cuda, its index unknown: left
  // out), `torch.FloatTensor` (cpu).
  std::vector<std::string> devices_named;

  // Those on which the message says that operands lie, unlike those that it expected. Such are "found at least two
  // devices, cuda:1 and cuda:0", "index is on cuda:0, different from other tensors on cuda:1", "Input type
  // (torch.cuda.FloatTensor) and weight type (torch.FloatTensor)" (cuda and cpu).
  std::vector<std::string> devices_of_operands;

  // "index" and "wrapper_CUDA__index_select" out of "...when checking argument for argument index in method
  // wrapper_CUDA__index_select".
  std::string argument;
  std::string method;

  // "Expected a 'cuda' device type for generator but found 'cpu'": where the numbers were asked for; empty otherwise.
  std::string generator_wanted;

  // An argument that has to be on the CPU was given on another device: "'lengths' argument should be a 1D CPU int64
  // tensor, but got 1D cuda:0 Long tensor".
  bool wants_cpu = false;

  // What the error states, or a row of the table says of its text: which operation, where its operand lies, where it is
  // wanted.
  std::optional<KnownMatch> known;
  // A message of the catalogue (docs/reference/device-errors.md): one that PyTorch or a library raises because of where
  // something lies. It does not say what lies where.
  bool catalogued = false;

  // The operator for which the dispatcher found no kernel, "aten::X" of "Could not run 'aten::X' with arguments from
  // the 'CUDA' backend". There is one for the CPU; without it, it is an ordinary error. Empty otherwise. Operands on
  // the CPU and on a CUDA device go to CUDA together. Operands on two CUDA devices are refused as they would be on one.
  std::string without_kernel;

  // Is it worth looking at, also where anybody may have written the text?
  bool may_be_refusal() const {
    return known || catalogued || likelihood == Likelihood::certain || devices_named.size() >= 2;
  }
};

// Cheap: programs may raise many ordinary errors, and the same refusal again and again.
RefusalMessage classify(const events::Refused& refusal);

}  // namespace devtrace::refusals

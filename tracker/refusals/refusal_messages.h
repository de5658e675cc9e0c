// Which of PyTorch's errors are refusals of mixed devices.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/interface/device.h"
#include "tracker/refusals/known_refusals.h"

namespace devtrace::refusals {

enum class Likelihood {
  none,      // an ordinary error: nothing is looked at
  possible,  // speaks of devices: a refusal if the operands of the failing expression really are on different devices
  certain,   // one of PyTorch's device checks
};
// Cheap: programs may raise many ordinary errors.
Likelihood judge(std::string_view message);

// Everything that a message says.
struct RefusalMessage {
  Likelihood likelihood = Likelihood::none;

  // In order of appearance and once each: `cuda:1`, `cpu`, `torch.cuda.FloatTensor` (cuda, its index unknown: left
  // out), `torch.FloatTensor` (cpu).
  std::vector<std::string> devices_named;

  // Those on which the message says that operands lie, unlike those that it expected: "found at least two devices,
  // cuda:1 and cuda:0", "index is on cuda:0, different from other tensors on cuda:1", "Input type
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

  // What the table of known refusals says of it.
  std::optional<KnownMatch> known;
  // A message of PyTorch's or a library's about where something lies, if they raise it.
  bool catalogued = false;

  // The operator for which the dispatcher found no kernel, "aten::X" of "Could not run 'aten::X' with arguments from
  // the 'CUDA' backend", while there is one for the CPU (judge says `none` without it); empty otherwise. Operands on
  // the CPU and on a CUDA device go to CUDA together. Operands on two CUDA devices are refused as they would be on one.
  std::string without_kernel;

  // Is it worth looking at, also where anybody may have written the text?
  bool may_be_refusal() const {
    return known || catalogued || likelihood == Likelihood::certain || devices_named.size() >= 2;
  }
};

// `likelihood`: what judge said, or better knowledge.
RefusalMessage parse(std::string_view message, Likelihood likelihood);

}  // namespace devtrace::refusals

// Where models lie, tonight and in the baseline: what moved, whatever the devices' numbers are.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::report::check {

// Of each model ("LlamaForCausalLM", "Net (teacher)") each tensor's devices, over all processes.
using Places = std::map<std::string, std::map<std::string, std::set<std::string>>>;

// How a device is called over all ranks of a job: "cuda:LOCAL_RANK" is a rank's own (torchrun's LOCAL_RANK, or the only
// one that it sees); all others keep their names.
std::string device_of_rank(const Json& process, const std::string& device);

// Tensors of one model that did the same, said shortly.
struct Displaced {
  std::string root;
  std::string names;  // "model.layers.16-31"; empty: all of it
  size_t tensors = 0;
  std::set<std::string> before, now;  // devices, numbered as in the baseline; empty: it was not there
};

struct PlacementChanges {
  std::vector<Displaced> moved, added, gone;
  size_t moved_tensors = 0;
  // Tonight's numbers in the baseline's, where they differ: "cuda:6" → "cuda:0".
  std::map<std::string, std::string> numbers;
};

// The same devices in another order are the same placement: each of tonight's devices stands for the one of the
// baseline with which it shares most tensors.
PlacementChanges changes(const Places& before, const Places& now);

// Tonight's placement as the baseline would number it, so that a diff shows what moved and nothing else.
Places renumbered(const Places& before, const Places& now);

}  // namespace devtrace::report::check

// Names of a model's tensors, said shortly: a module stands for all of its tensors, numbered neighbours for each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report {

struct NameGroup {
  std::string name;             // "model.layers.16-31", "lm_head.weight"; empty: all names there are
  int colour = 0;               // of all of its names
  std::vector<size_t> members;  // indexes into the names
};

// Puts names of one colour together, in order of appearance. `colours`: one each; a name whose colour is below 0 is in
// no group, and no group's name covers it.
std::vector<NameGroup> grouped_names(const std::vector<std::string_view>& names, const std::vector<int>& colours);

}  // namespace devtrace::report

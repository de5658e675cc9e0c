// What `devtrace place` tries: each combination of the values that --try gives.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace devtrace::cli::place {

// "gpus=1,2,4": the devices' number, their model, their memory, the model's map, ranks among which each layer is split.
// Any other name is the program's own, and stands in its words as {name}.
struct Variation {
  std::string name;
  std::vector<std::string> values;
};

using Values = std::map<std::string, std::string>;  // by name

// Throws Failure for what is no variation, a name that comes twice, and a value that its name does not have.
std::vector<Variation> read_variations(const std::vector<std::string>& texts);

// Throws Failure where a name of the program's own stands in none of its words, and for more than kMostTries.
constexpr size_t kMostTries = 256;
std::vector<Values> combinations(const std::vector<Variation>& variations, const std::vector<std::string>& program);

// The program's words with a combination's values in their places; for several ranks behind torchrun's. Throws Failure
// where that cannot start the program.
std::vector<std::string> filled(const std::vector<std::string>& program, const Values& values);

// Whether it is about the devices or the map; else it is the program's own.
bool is_ours(const std::string& name);

}  // namespace devtrace::cli::place

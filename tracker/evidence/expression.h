// The variables that an expression's source text mentions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace devtrace::evidence {

// One step from a value to a part of it.
struct Step {
  enum Kind { attribute, key, index } kind;
  std::string name;   // attribute or key
  long position = 0;  // index
};

// `encoded["input_ids"]`: a variable and the steps from it.
struct Path {
  std::string variable;
  std::vector<Step> steps;
};

// The paths that Python source text mentions, in order and once each: `torch.cat((past[0], k.mT), dim=-1)` has past[0],
// k and torch. What is called is left out but for what it is called on (`x.sum()` mentions x); so are strings, numbers,
// keywords and the names of keyword arguments. Steps whose subscript is not a literal end the path there.
std::vector<Path> paths_in(std::string_view source);

// As Python would write it.
std::string to_string(const Path& path);

}  // namespace devtrace::evidence

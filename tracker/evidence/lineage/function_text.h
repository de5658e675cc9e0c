// A Python function as the lines of its file have it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::evidence {

using Lines = std::vector<std::string>;  // of a file; the first is number 1

struct FunctionText {
  int first = 1, last = 0;  // its lines; of a module all
  bool module = false;
  std::vector<std::string> parameters;  // those that a call gives by place come first; without *args and **kwargs
  bool method = false;                  // the first is `self` or `cls`
};

// The function of that name (co_qualname, or co_name) that has the line. Nothing of a lambda and a comprehension, and
// where the text has changed. Under the GIL.
std::optional<FunctionText> function_at(const python::Api& api, const Lines& lines, const std::string& name, int line);

// The lines of the function that give the variable a value, as far as their own text shows it.
std::vector<int> bindings(const Lines& lines, const FunctionText& function, const std::string& variable);

}  // namespace devtrace::evidence

// The lines of a function that a line's values come from.
#pragma once

#include <string>
#include <vector>

#include "tracker/evidence/lineage/function_text.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/evidence/source/expression.h"

namespace devtrace::evidence {

struct ReadLine {
  int number = 0;
  std::string text;
  std::vector<Path> used;  // what it reads
};

// That line of the function and, from the inmost out, those that gave the variables their values which it reads. Of a
// function whose text is not known that line alone. Under the GIL.
std::vector<ReadLine> lines_behind(const python::Api& api, const FunctionText* function, const SourceText& source,
                                   const std::string& file, int line);

}  // namespace devtrace::evidence

// The edits of a finding's cause, as changes of the repository's files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/check/repository.h"
#include "report/record/json.h"

namespace devtrace::report::check {

// Lines `first` to `last` of a file, from behind the indentation on, and what is to stand there. Columns count
// UTF-16 code units from 1, as editors do; `end_column` is past the end.
struct Replacement {
  std::string file;  // from the repository's root on
  int64_t first = 0, last = 0;
  size_t column = 1, end_column = 1;
  std::string text;
};

// The fix and all that goes with it. Empty where there is none, or where one of its lines is not in the repository as
// the program had it. An edit of other text than the verdict has read would break that.
std::vector<Replacement> replacements(const Json& finding, std::string_view cwd, Repository& repository);

}  // namespace devtrace::report::check

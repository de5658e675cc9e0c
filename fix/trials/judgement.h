// What a run with edits says of them, beside the run before.
#pragma once

#include <string>

#include "fix/record/outcome.h"

namespace devtrace::fix {

// In the log: verified.outcome (docs/reference/log.md).
enum class Result {
  failed,   // the finding is still there, the program got less far, or its end shows no repair (on the CPU, swallowed)
  further,  // it is gone, and the program got further, to its next finding, to another error, or to its time limit
  ran_to_end,  // the program ended well, without a finding
};

struct Judgement {
  Result result = Result::failed;
  std::string why;  // one clause: "refused at aten::add before", "ended with ValueError: …"
};

// `before`: the run whose first finding the edits are for.
Judgement judge(const Outcome& before, const Outcome& after);

// "ran-to-end", as the log says it.
const char* word(Result result);

}  // namespace devtrace::fix

// What trying a fix has shown, in words: the same in the text, the HTML and the Markdown report.
#pragma once

#include <string>

#include "report/record/json_access.h"

namespace devtrace::report {

struct Verification {
  std::string label;  // "verified" where the program then ran to its end, else "tried"
  std::string words;  // "with this change the program ran to its end in rehearsal; 2 findings before, 0 after; …"
};

// Of a finding whose cause was tried (`cause`.`verified`, docs/reference/log.md). Without words when it was not.
Verification verification_of(const Json& finding);

}  // namespace devtrace::report

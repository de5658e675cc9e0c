// What is known of a refused operation's operands, as JSON. Under the GIL, which the lines of a notebook need.
#pragma once

#include <string>
#include <vector>

#include "tracker/evidence/autograd.h"
#include "tracker/evidence/operands.h"
#include "tracker/log/record_fields.h"

namespace devtrace::findings {

// Whether an operand is the odd one is decided when all are known; until then its field keeps the place.
report::Json with_odd(report::Json operand, bool odd);

// `library`: the standard library's folder.
report::Json operand_json(const evidence::Operand& operand, const std::string& library,
                          const log::record_fields::SourceText& source);
report::Json modules_json(const std::vector<evidence::RunningModule>& modules);
report::Json gradient_json(const evidence::RefusedGradient& gradient, const std::string& library);

}  // namespace devtrace::findings

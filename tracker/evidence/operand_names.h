// What the program calls an operation's operands: by its frames' variables, by the text of their calls, by the state of
// the modules whose methods are running.
#pragma once

#include <vector>

#include "tracker/evidence/operand_search.h"

namespace devtrace::evidence {

// `direct`: the innermost frame itself asked for the operation. `mentions`: what calls name besides operands.
void name_operands(const OperandSearch& search, bool direct, std::vector<Operand>& operands,
                   finding::List<finding::Mention>& mentions);

}  // namespace devtrace::evidence

// What stands around an operation's operands: who holds them, which modules' methods are running, which devices the
// call names.
#pragma once

#include <string>
#include <vector>

#include "tracker/evidence/operand_search.h"

namespace devtrace::evidence {

// Into `facts`, and into the operands themselves what concerns each. `direct`: the innermost frame itself asked for the
// operation.
void add_surroundings(const OperandSearch& search, bool direct, std::vector<Operand>& operands, finding::Refusal& facts,
                      std::vector<std::string>& named_devices);

}  // namespace devtrace::evidence

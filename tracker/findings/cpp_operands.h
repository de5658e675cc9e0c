// The operands of a refused operation where no Python frame asked for it: a LibTorch program's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "finding/finding.h"
#include "tracker/evidence/origins/stacks.h"

namespace devtrace::findings {

struct CppOperands {
  finding::List<finding::Operand> operands;
  std::string operation, overload;  // "add", "Tensor"
};

// `mismatched`: the data pointer of the tensor that the check stumbled over. `shown`: the same stack, with the sources
// of the user's own lines. Nothing where no operator is on the stack.
std::optional<CppOperands> cpp_operands(uintptr_t mismatched, const std::vector<stacks::NativeFrame>& native,
                                        const finding::Stack& shown, const evidence::SourceText& source);

}  // namespace devtrace::findings

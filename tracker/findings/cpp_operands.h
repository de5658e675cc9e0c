// The operands of a refused operation where no Python frame asked for it: a LibTorch program's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/interface/event_types.h"
#include "tracker/log/record_fields.h"
#include "tracker/refusals/decide.h"

namespace devtrace::findings {

struct CppOperands {
  std::vector<log::record_fields::Json> operands;  // without `odd`
  std::vector<refusals::Facts::Operand> facts;     // of each
  std::string operation, overload;                 // "add", "Tensor"
};

// `native`: the stack as JSON, with the sources of the user's own lines. Nothing where no operator is on the stack.
std::optional<CppOperands> cpp_operands(const events::Refused& refusal, const log::record_fields::Native& native,
                                        const log::record_fields::Json& frames,
                                        const log::record_fields::SourceText& source);

}  // namespace devtrace::findings

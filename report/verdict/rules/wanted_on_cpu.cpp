// An argument that has to be on the CPU whatever the others are on: the lengths of pack_padded_sequence.
#include <algorithm>

#include "report/base/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> wanted_on_cpu(const Evidence& evidence) {
  if (evidence.message.find(" argument should be a ") == evidence.message.npos ||
      evidence.message.find(" CPU ") == evidence.message.npos || evidence.argument.empty())
    return std::nullopt;
  const auto called = [&](const Operand& it) {
    return it.name == evidence.argument ||
           std::any_of(it.names.begin(), it.names.end(),
                       [&](const Operand::Name& each) { return each.name == evidence.argument; });
  };
  const auto it = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                               [&](const Operand& each) { return called(each) && !each.on_cpu(); });
  if (it == evidence.operands.end()) return std::nullopt;
  Cause cause{"input-wanted-on-cpu", Confidence::high,
              fmt::format("{} takes {} on the CPU only, whatever device it works on, and was given {}.",
                          evidence.operation.empty() ? "The operation" : evidence.operation, evidence.argument,
                          with_place(*it)),
              std::nullopt};
  for (size_t frame = 0; frame < evidence.stack.size() && !cause.fix; ++frame) {
    const std::string_view name = it->name_in(frame);
    const Frame& here = evidence.stack[frame];
    if (!here.project || !is_reference(name)) continue;
    if (auto code = replace_read(here.source, name, fmt::format("{}.cpu()", name)))
      cause.fix = Fix{std::move(*code), std::string(here.file), here.line, Repairs::cause};
  }
  // What torch's own function made of it first has no name outside: then it is what was given under that name.
  for (const Evidence::Mention& mention : evidence.mentions) {
    if (cause.fix || mention.frame >= evidence.stack.size() || mention.device == "cpu") continue;
    const Frame& here = evidence.stack[mention.frame];
    const bool same =
        mention.name == evidence.argument || mention.name.ends_with(fmt::format(".{}", evidence.argument));
    if (!here.project || !same) continue;
    if (auto code = replace_read(here.source, mention.name, fmt::format("{}.cpu()", mention.name)))
      cause.fix = Fix{std::move(*code), std::string(here.file), here.line, Repairs::cause};
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules

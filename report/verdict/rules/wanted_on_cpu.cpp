// An operand that has to be on the CPU whatever the others are on. Examples are the lengths of pack_padded_sequence,
// what becomes a NumPy array, what is pinned, what an operator works on that has no kernel for CUDA.
#include <algorithm>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

bool called(const Operand& operand, std::string_view argument) {
  return operand.name == argument || std::any_of(operand.names.begin(), operand.names.end(),
                                                 [&](const finding::Name& each) { return each.name == argument; });
}

bool lacks_kernel(const Evidence& evidence) {
  return evidence.message.starts_with("Could not run '");
}

// The operand that is not there, and as what it was given; null: the error is not about that.
const Operand* not_on_cpu(const Evidence& evidence) {
  // A generator's state, which the message calls a type.
  if (evidence.message.starts_with("RNG state must be a torch.ByteTensor") && evidence.operands.size() == 1 &&
      !evidence.operands[0].on_cpu())
    return &evidence.operands[0];
  const bool by_name = evidence.message.find(" argument should be a ") != evidence.message.npos &&
                       evidence.message.find(" CPU ") != evidence.message.npos && !evidence.argument.empty();
  if (!by_name && evidence.refusal.wanted_device != "cpu") return nullptr;
  // FakeTensors' own words name first the one, then the other: neither is what the operator wants.
  if (evidence.message.find("two different devices") != evidence.message.npos) return nullptr;
  const auto it = std::find_if(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& each) {
    return !each.on_cpu() && each.device != "meta" && (by_name ? called(each, evidence.argument) : each.mismatched);
  });
  return it == evidence.operands.end() ? nullptr : &*it;
}

// `np.stack([each.cpu() for each in rows])` where the operand is rows[0].
std::optional<std::string> move_elements(std::string_view source, std::string_view name) {
  const size_t bracket = name.rfind('[');
  if (!name.ends_with(']') || bracket == name.npos || bracket + 2 >= name.size()) return std::nullopt;
  const std::string_view index = name.substr(bracket + 1, name.size() - bracket - 2), list = name.substr(0, bracket);
  const bool number = std::all_of(index.begin(), index.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number || !is_reference(list)) return std::nullopt;
  return replace_read(source, list, fmt::format("[each.cpu() for each in {}]", list));
}

// All that an operator works on which has no kernel for CUDA, brought to the CPU in the line that calls it.
std::optional<Fix> all_to_cpu(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own) return std::nullopt;
  std::string code(evidence.stack[*own].source);
  for (const Operand& operand : evidence.operands) {
    if (operand.on_cpu()) continue;
    std::string_view name = operand.name_in(*own);
    if (name.empty() && *own == 0) name = operand.expression;
    if (name.empty()) return std::nullopt;
    const std::string moved = fmt::format("{}.cpu()", name);
    auto next = is_reference(name) ? replace_read(code, name, moved) : replace_expression(code, name, moved);
    if (!next) return std::nullopt;
    code = std::move(*next);
  }
  return repair_of(evidence.stack[*own], std::move(code));
}

// Several, of which none is the one: the operator is to run on the CPU.
std::optional<Cause> without_kernel(const Evidence& evidence) {
  const auto elsewhere = [](const Operand& each) { return !each.on_cpu() && each.device != "meta"; };
  if (!lacks_kernel(evidence) || evidence.refusal.wanted_device != "cpu" || evidence.operands.size() < 2 ||
      !std::all_of(evidence.operands.begin(), evidence.operands.end(), elsewhere))
    return std::nullopt;
  std::string operands;
  for (const Operand& each : evidence.operands) operands += (operands.empty() ? "" : ", ") + with_place(each);
  return Cause{"input-wanted-on-cpu", Confidence::high,
               fmt::format("{} has a kernel for the CPU and none for CUDA, and was given {}.",
                           evidence.operation.empty() ? "The operation" : evidence.operation, operands),
               all_to_cpu(evidence)};
}

// The line with the operand brought to the CPU, in the innermost frame of the user's that shows it.
std::optional<Fix> to_cpu(const Evidence& evidence, const Operand& operand) {
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    const Frame& here = evidence.stack[frame];
    const std::string_view name = operand.name_in(frame);
    if (!here.project) continue;
    std::optional<std::string> code;
    if (is_reference(name)) code = replace_read(here.source, name, fmt::format("{}.cpu()", name));
    if (!code && !name.empty()) code = move_elements(here.source, name);
    if (!code && !name.empty() && !is_reference(name))
      code = replace_expression(here.source, name, fmt::format("{}.cpu()", name));
    if (!code && frame == 0 && !operand.expression.empty())
      code = replace_expression(here.source, operand.expression, fmt::format("{}.cpu()", operand.expression));
    if (code) return repair_of(here, std::move(*code));
  }
  return std::nullopt;
}

// What the program's line gives for the argument, whatever it calls that: `pack_padded_sequence(x, sizes)`. The
// function of PyTorch's takes what its operator does, in the same order.
std::optional<Fix> given_to_cpu(const Evidence& evidence, const Operand& operand) {
  constexpr std::string_view kNamespace = "aten::";
  const auto own = innermost_project(evidence.stack);
  if (!own || !evidence.operation.starts_with(kNamespace) || evidence.argument.empty()) return std::nullopt;
  const Frame& line = evidence.stack[*own];
  std::string_view function = std::string_view(evidence.operation).substr(kNamespace.size());
  function.remove_prefix(std::min(function.find_first_not_of('_'), function.size()));
  const std::string_view source = line.source;
  const Scan scan(source);
  const auto call = only_call_in(source, scan, function);
  if (!call) return std::nullopt;
  const std::vector<Span> given = arguments(source, scan, *call);
  auto value = keyword_value(source, given, evidence.argument);
  const auto place = static_cast<size_t>(&operand - evidence.operands.data());
  if (!value && place < given.size()) value = given[place];
  const std::string_view text = value ? trimmed(source.substr(value->begin, value->end - value->begin)) : "";
  if (!is_reference(text) && !is_call(text)) return std::nullopt;
  const size_t begin = value->begin + source.substr(value->begin).find(text);
  return repair_of(line, dedented(spliced(source, {begin, begin + text.size()}, fmt::format("{}.cpu()", text))));
}

}  // namespace

std::optional<Cause> wanted_on_cpu(const Evidence& evidence) {
  const Operand* const it = not_on_cpu(evidence);
  if (!it) return without_kernel(evidence);
  const std::string operation = evidence.operation.empty() ? "The operation" : evidence.operation;
  const std::string place = with_place(*it);
  Cause cause{"input-wanted-on-cpu", Confidence::high,
              lacks_kernel(evidence)
                  ? fmt::format("{} has a kernel for the CPU and none for CUDA, and was given {}.", operation, place)
                  : fmt::format("{} takes {} on the CPU only, whatever device it works on, and was given {}.",
                                operation, evidence.argument.empty() ? "what it works on" : evidence.argument, place),
              std::nullopt};
  cause.fix = to_cpu(evidence, *it);
  const auto own = innermost_project(evidence.stack);
  if (evidence.message.starts_with("cannot pin '") && evidence.passes_through("/torch/utils/data/")) {
    cause.because += " A loader with pin_memory=True pins what it hands out.";
    const Frame* const line = own ? &evidence.stack[*own] : nullptr;
    if (!cause.fix && line && keyword_argument(line->source, "pin_memory"))
      if (auto code = give_argument(line->source, "DataLoader", "pin_memory", "False"))
        cause.fix = repair_of(*line, std::move(*code));
  }
  // What torch's own function made of it first has no name outside: then it is what was given under that name.
  for (const finding::Mention& mention : evidence.refusal.mentions) {
    if (cause.fix || mention.frame >= evidence.stack.size() || mention.device == "cpu") continue;
    const Frame& here = evidence.stack[mention.frame];
    const bool same =
        mention.name == evidence.argument || mention.name.ends_with(fmt::format(".{}", evidence.argument));
    if (!here.project || !same) continue;
    if (auto code = replace_read(here.source, mention.name, fmt::format("{}.cpu()", mention.name)))
      cause.fix = repair_of(here, std::move(*code));
  }
  if (!cause.fix) cause.fix = given_to_cpu(evidence, *it);
  const Frame* const moved = it->moved.line();
  if (!cause.fix && moved && moved->project) cause.fix = repair_of(*moved, {});
  // Where the line does not show it, `map(np.asarray, rows)`, that is the line all the same.
  if (!cause.fix && own) cause.fix = repair_of(evidence.stack[*own], {});
  return cause;
}

}  // namespace devtrace::report::verdict::rules

// LibTorch: what one line of the user's gives to an operator lies on two devices.
#include <algorithm>
#include <cctype>
#include <vector>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/cpp/origin.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// Whether PyTorch's text names the device: an index on the CPU may meet what lies elsewhere, and is not what it
// refused.
bool is_named(std::string_view message, std::string_view device) {
  for (size_t at = 0; (at = message.find(device, at)) != message.npos; at += device.size())
    if (at + device.size() >= message.size() || !std::isdigit(static_cast<unsigned char>(message[at + device.size()])))
      return true;
  return false;
}

// Those on the devices that the text names, where it names two.
std::vector<const Operand*> refused_ones(const Evidence& evidence) {
  std::vector<const Operand*> all, named;
  std::string_view first;
  bool two = false;
  for (const Operand& operand : evidence.operands) {
    all.push_back(&operand);
    if (!is_named(evidence.message, operand.device)) continue;
    two = two || (!named.empty() && operand.device != first);
    if (named.empty()) first = operand.device;
    named.push_back(&operand);
  }
  return two ? named : all;
}

ptrdiff_t count_on(const std::vector<const Operand*>& operands, std::string_view device) {
  return std::count_if(operands.begin(), operands.end(), [&](const Operand* each) { return each->device == device; });
}

// The one operand that lies elsewhere: which the check stumbled over, or the only one on its device, rather on the CPU.
const Operand* stranger(const std::vector<const Operand*>& operands) {
  const Operand* found = nullptr;
  for (const Operand* operand : operands) {
    if (count_on(operands, operand->device) != 1) continue;
    if (!found || operand->on_cpu() || (operand->mismatched && !found->on_cpu())) found = operand;
  }
  return found;
}

// "x (cuda:0, created at main.cpp:9)".
std::string with_origin(const Operand& operand) {
  const Event* placed = operand.placed();
  const std::string where = placed ? at(innermost_own(placed->native)) : std::string();
  if (where.empty()) return fmt::format("{} ({})", operand.name, operand.device);
  return fmt::format("{} ({}, {} at {})", operand.name, operand.device,
                     operand.moved.known() ? "moved there" : "created", where);
}

std::string device_of(const Operand& target) {
  if (is_identifier(target.name)) return target.name + ".device()";
  return cpp_device(target.device);
}

// Something that `.to(…)` may stand behind: names, members, calls, subscripts.
bool is_primary(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    const bool arrow = text.substr(i, 2) == "->" || (i > 0 && text.substr(i - 1, 2) == "->");
    if (depth == 0 && !arrow && !std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_.:)]}").find(c) == std::string_view::npos)
      return false;
  }
  return !text.empty() && depth == 0;
}

// Where the line asks for another operator, which asked for the refused one: what it gives that one is written there.
std::optional<Fix> moved_in_text(const Frame& line, const Operand& operand, const Operand& target) {
  const size_t at = line.source.find(operand.name);
  if (operand.role != "temporary" || !is_primary(operand.name) || at == line.source.npos ||
      line.source.find(operand.name, at + 1) != line.source.npos)
    return std::nullopt;
  std::string code(line.source);
  code.insert(at + operand.name.size(), fmt::format(".to({})", device_of(target)));
  return line_fix(line, std::move(code));
}

// The line with `.to(…)` behind the operand's text.
std::optional<Fix> moved_in_line(const Evidence& evidence, const Operand& operand, const Operand& target) {
  const Frame* line = innermost_own(evidence.native);
  if (!line || !operand.position) return std::nullopt;
  constexpr std::string_view kAten = "aten::";
  std::string_view operation = evidence.operation;
  if (operation.starts_with(kAten)) operation.remove_prefix(kAten.size());
  const auto written = operator_arguments(line->source, operation);
  const auto index = static_cast<size_t>(*operand.position);
  // What an operator writes to must stay where it is.
  if (index == 0 && operation.ends_with('_')) return std::nullopt;
  if (!written) return moved_in_text(*line, operand, target);
  if (index >= written->size()) return std::nullopt;
  const std::string_view text = (*written)[index];
  if (text != operand.name || !is_reference(text)) return std::nullopt;
  std::string code(line->source);
  code.replace(static_cast<size_t>(text.data() - line->source.data()), text.size(),
               fmt::format("{}.to({})", text, device_of(target)));
  return line_fix(*line, std::move(code));
}

// The line that put the operand where it is, where none of the others came by the same: that would be moved as well.
std::optional<Fix> put_elsewhere(const Evidence& evidence, const Operand& operand, const Operand& target) {
  const Event* placed = operand.placed();
  const Frame* line = placed ? innermost_own(placed->native) : nullptr;
  if (!line) return std::nullopt;
  for (const Operand& each : evidence.operands) {
    const Event* other = each.placed();
    const Frame* of_other = other ? innermost_own(other->native) : nullptr;
    if (&each != &operand && of_other && of_other->same_line(*line)) return std::nullopt;
  }
  return put_on(*placed, operand.moved.known(), target.device);
}

}  // namespace

std::optional<Cause> cpp_operand_elsewhere(const Evidence& evidence) {
  if (evidence.kind != "refused-op" || !evidence.in_cpp()) return std::nullopt;
  const std::vector<const Operand*> operands = refused_ones(evidence);
  const Operand* mismatched = stranger(operands);
  if (!mismatched) return std::nullopt;
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [&](const Operand* each) { return each->device != mismatched->device; });
  if (found == operands.end()) return std::nullopt;
  const Operand* other = *found;
  Cause cause{"operand-not-moved", Confidence::medium,
              fmt::format("{} meets {}: nothing brings them together before this line.", with_origin(*mismatched),
                          with_origin(*other)),
              moved_in_line(evidence, *mismatched, *other)};
  // One of several that lie there would not do.
  if (!cause.fix && count_on(operands, other->device) == 1) cause.fix = moved_in_line(evidence, *other, *mismatched);
  // A line that gives them to a module, or to a function of LibTorch's, shows neither.
  if (!cause.fix) cause.fix = put_elsewhere(evidence, *mismatched, *other);
  return cause;
}

}  // namespace devtrace::report::verdict::rules

// LibTorch: what one line of the user's gives to an operator lies on two devices.
#include <algorithm>

#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/verdict/cpp_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// The one operand that lies elsewhere: which the check stumbled over, or the only one on its device, rather on the CPU.
const Operand* stranger(const Evidence& evidence) {
  const auto on = [&](std::string_view device) {
    return std::count_if(evidence.operands.begin(), evidence.operands.end(),
                         [&](const Operand& each) { return each.device == device; });
  };
  const Operand* found = nullptr;
  for (const Operand& operand : evidence.operands) {
    if (on(operand.device) != 1) continue;
    if (!found || operand.on_cpu() || (operand.odd && !found->on_cpu())) found = &operand;
  }
  return found;
}

// "x (cuda:0, created at main.cpp:9)".
std::string with_origin(const Operand& operand) {
  const Event* placed = operand.placed();
  const std::string where = placed ? at(innermost_own(placed->native)) : std::string();
  if (where.empty()) return fmt::format("{} ({})", operand.name, operand.device);
  return fmt::format("{} ({}, {} at {})", operand.name, operand.device, operand.moved.known ? "moved there" : "created",
                     where);
}

std::string device_of(const Operand& target) {
  if (is_identifier(target.name)) return target.name + ".device()";
  if (target.on_cpu()) return "torch::kCPU";
  return fmt::format("torch::Device(torch::kCUDA, {})", target.device.substr(target.device.find(':') + 1));
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
  if (!written || index >= written->size() || (index == 0 && operation.ends_with('_'))) return std::nullopt;
  const std::string_view text = (*written)[index];
  if (text != operand.name || !is_reference(text)) return std::nullopt;
  std::string code(line->source);
  code.replace(static_cast<size_t>(text.data() - line->source.data()), text.size(),
               fmt::format("{}.to({})", text, device_of(target)));
  return Fix{std::move(code), std::string(line->file), line->line, Repairs::line};
}

}  // namespace

std::optional<Cause> cpp_operand_elsewhere(const Evidence& evidence) {
  if (evidence.kind != "refused-op" || !evidence.in_cpp()) return std::nullopt;
  const Operand* odd = stranger(evidence);
  if (!odd) return std::nullopt;
  const auto other = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                  [&](const Operand& each) { return each.device != odd->device; });
  if (other == evidence.operands.end()) return std::nullopt;
  Cause cause{"operand-not-moved", Confidence::medium,
              fmt::format("{} meets {}: nothing brings them together before this line.", with_origin(*odd),
                          with_origin(*other)),
              moved_in_line(evidence, *odd, *other)};
  if (!cause.fix) cause.fix = moved_in_line(evidence, *other, *odd);
  return cause;
}

}  // namespace devtrace::report::verdict::rules

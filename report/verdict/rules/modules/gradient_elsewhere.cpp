// A gradient lies where the tensor lies that it is for. PyTorch compares the two after every node of autograd's graph,
// so what differs was made by that node: a torch.autograd.Function of the program's, or a hook that it passed before.
#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// What the gradient is for: the tensor where it has a name, else the parameter of forward.
std::string target(const Evidence& evidence) {
  for (const Operand& operand : evidence.operands)
    if (!operand.mismatched && !operand.names.empty()) return with_place(operand);
  const auto& gradient = evidence.refusal.gradient;
  const std::string name = gradient.argument.empty() ? "what its forward was given" : std::string(gradient.argument);
  return fmt::format("{} ({})", name, evidence.refusal.wanted_device);
}

const Operand* refused_gradient(const Evidence& evidence) {
  for (const Operand& operand : evidence.operands)
    if (operand.mismatched && operand.names.empty()) return &operand;
  return nullptr;
}

std::string hooks_of(const Evidence& evidence) {
  std::string words;
  for (const finding::GradientHook& hook : evidence.refusal.gradient.hooks)
    words += fmt::format("{}the hook of {} at {}", words.empty() ? "" : " or ", hook.tensor, at(&hook.code));
  return words;
}

// What backward calls as forward called what the gradient is for; else the first gradient that it was given, which lies
// where the work was done.
std::string device_in_backward(const Evidence& evidence) {
  const auto& gradient = evidence.refusal.gradient;
  const Frame& returns = gradient.backward;
  if (is_identifier(gradient.argument) && find_variable(returns.source, gradient.argument) != std::string::npos)
    return fmt::format("{}.device", gradient.argument);
  constexpr std::string_view kDefinition = "def backward(";
  for (const auto& [number, text] : statements_around(returns)) {
    const size_t at = text.find(kDefinition), comma = text.find(", ", at);
    if (number > returns.line || at == text.npos || comma == text.npos) continue;
    const std::string_view first = text.substr(comma + 2, text.find_first_of(",:=)", comma + 2) - comma - 2);
    if (is_identifier(first)) return fmt::format("{}.device", first);
  }
  return expression_or_number(evidence, returns, evidence.refusal.wanted_device);
}

}  // namespace

std::optional<Cause> gradient_elsewhere(const Evidence& evidence) {
  const auto& gradient = evidence.refusal.gradient;
  const Operand* const it = refused_gradient(evidence);
  if (!it || (gradient.function.empty() && gradient.hooks.empty())) return std::nullopt;
  const std::string hooks = hooks_of(evidence);
  if (gradient.function.empty())
    return Cause{
        "gradient-elsewhere", Confidence::medium,
        fmt::format("{} worked on {}, where {} had brought the gradient: it gives {} a gradient that lies there.",
                    evidence.operation, it->device, hooks, target(evidence)),
        std::nullopt};
  std::string because = fmt::format("{}.backward ({}) gives {} a gradient on {}: it has to lie where that lies.",
                                    gradient.function, at(&gradient.backward), target(evidence), it->device);
  if (gradient.forward.known()) because += fmt::format(" Its forward is at {}.", at(&gradient.forward));
  if (!hooks.empty()) because += fmt::format(" Or {} has moved it.", hooks);
  // What it gives as it has saved it was made by its forward, for reasons of that.
  const bool made_here = !it->expression.empty() && it->expression.find('(') != it->expression.npos;
  Cause cause{"gradient-elsewhere", hooks.empty() && made_here ? Confidence::high : Confidence::medium,
              std::move(because), std::nullopt};
  const Frame& returns = gradient.backward;
  if (!returns.project || it->expression.empty() || evidence.refusal.wanted_device.empty()) return cause;
  const std::string device = device_in_backward(evidence);
  const bool made = makes_tensor(it->expression) && !says_device(it->expression);
  auto code = made ? give_device(returns.source, device) : std::nullopt;
  if (!code) code = move_expression(returns.source, it->expression, device);
  if (code) cause.fix = repair_of(returns, std::move(*code));
  return cause;
}

}  // namespace devtrace::report::verdict::rules

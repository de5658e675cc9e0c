// torch.zeros(…) and the like without device=: the default device, which is the CPU, whatever the data around it is on.
#include <fmt/format.h>

#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::causes::rules {

std::optional<Cause> created_without_device(const Evidence& evidence) {
  const auto caller = evidence.caller_of_model();
  const Frame* made = nullptr;
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        if (it.is_state() || it.moved.known || !it.created.known || it.created.stack.empty()) return false;
        const Frame* innermost = &it.created.stack.front();
        const Frame* user = it.created.line();
        made = makes_tensor(innermost->source) ? innermost : user;
        return makes_tensor(made->source) && !says_device(made->source) &&
               (evidence.frame_that_made(it) || evidence.made_inside_model(it));
      },
      // Made by the caller of a model and given to it, it is an input: another rule's.
      [&](const Operand& other) { return !(other.is_state() && caller); });
  const auto inside =
      pair ? pair
           : evidence.pair(
                 [&](const Operand& it) {
                   if (it.is_state() || it.moved.known || it.created.stack.empty()) return false;
                   made = &it.created.stack.front();
                   return makes_tensor(made->source) && !says_device(made->source) && evidence.made_inside_model(it);
                 },
                 [](const Operand&) { return true; });
  if (!inside) return std::nullopt;

  const auto frame = evidence.frame_that_made(*inside.it);
  Cause cause{"created-without-device", frame && made->project ? Confidence::high : Confidence::medium,
              fmt::format("{} was made on {} because the line says no device ({}), and meets {}.", inside.it->name,
                          inside.it->device, at(made), with_place(*inside.other)),
              std::nullopt};
  if (frame && made->project) {
    if (auto line = give_device(made->source, device_expression(evidence, *frame, *inside.other))) {
      cause.fix = Fix{std::move(*line), std::string(made->file), made->line};
    }
  }
  if (!cause.fix) cause.fix = move_where_named(evidence, *inside.it, *inside.other);
  return cause;
}

}  // namespace devtrace::report::causes::rules

// Module.to() gives parameters and buffers new memory: a reference to the old one that somebody kept stays behind.
#include "report/base/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> kept_from_before(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return !it.is_state() && !it.moved_away.name.empty(); },
                                  [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  // Several parameters may have been made by one line within one tick of the clock.
  const bool there = it.moved_away.device == pair.other->device;
  return Cause{
      "cached-state-elsewhere", there ? Confidence::high : Confidence::medium,
      fmt::format("{} is what {} was until that was moved to {}: moving a module gives it new memory, and what "
                  "was kept from before stays where it was. It meets {}.",
                  with_place(it), it.moved_away.name, it.moved_away.device, with_place(*pair.other)),
      move_where_named(evidence, it, *pair.other)};
}

}  // namespace devtrace::report::verdict::rules

// What somebody kept from before a move of the model: a tensor of it, or the device on which it lay.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

// Module.to() gives parameters and buffers new memory: a reference to the old one that somebody kept stays behind.
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

// A device kept in an attribute: .to() of the model changes the model and not what somebody wrote down about it.
std::optional<Cause> kept_device(const Evidence& evidence) {
  const Operand *it = nullptr, *other = nullptr;
  for (const Operand& one : evidence.operands)
    for (const Operand& two : evidence.operands)
      if (!it && one.device != two.device && by_a_stale_device(one, two)) it = &one, other = &two;
  if (!it) return std::nullopt;
  const auto& kept = it->origin().device_from;
  const bool module = kept.kind == "module";
  return Cause{
      module ? "state-not-registered" : "cached-state-elsewhere", Confidence::medium,
      fmt::format("{} lies where {} says, a plain attribute of {} that no .to() changes, and {} was moved away from "
                  "there: {}.",
                  with_place(it->origin()), kept.name, kept.type,
                  module ? "the module itself" : std::string(other->name), with_place(*other)),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules

// What a module computed, beside data that came from none: labels, rewards, masks, indices that the program was given.
#include "common/format.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> data_beside_result(const Evidence& evidence) {
  const auto computed = [](const Operand& it) { return it.came_from_a_module() || it.came_from_state(); };
  if (const auto pair = evidence.pair([&](const Operand& it) { return !computed(it) && it.placed(); }, computed)) {
    return Cause{
        "input-not-moved", Confidence::low,
        fmt::format("{} was computed with a model on {}, and {} comes from no model and was not brought there.",
                    pair.other->name, pair.other->device, with_place(*pair.it)),
        use_site(evidence)};
  }
  const auto pair = evidence.pair(
      [](const Operand& it) { return it.on_cpu() && it.created.known() && !it.moved.known(); },
      [](const Operand& other) { return other.moved.known() && other.moved.line() && other.moved.line()->project; });
  if (!pair) return std::nullopt;
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} was moved to {}, and {} never was.", with_place(*pair.other), pair.other->device,
                           with_place(*pair.it)),
               use_site(evidence)};
}

std::optional<Cause> never_moved(const Evidence& evidence) {
  const auto left = [](const Operand& it) {
    const Frame* made = it.created.line();
    return !it.is_of_state() && it.on_cpu() && !it.moved.known() && made && !says_device(made->source);
  };
  const auto pair = evidence.pair(
      left, [](const Operand& other) { return !other.on_cpu() && other.placed() && other.placed()->line(); });
  if (!pair) return std::nullopt;
  return Cause{"input-not-moved", Confidence::low,
               fmt::format("{} was made on the CPU and never moved, and meets {}.", with_place(*pair.it),
                           with_place(*pair.other)),
               use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules

// `.cuda()` and "cuda" mean the current device of the thread, which is cuda:0 unless that thread set another.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kCategory = "default-or-current-device";

// The line that named no number is the one to change, where it has words for the right device. A number is written only
// where nothing else helps: another machine may want another.
std::optional<Fix> fix_of(const Evidence& evidence, const Operand& it, const Operand& other) {
  auto use = move_where_named(evidence, it, other);
  if (use && !names(*use, other) && in_failing_library(evidence, *use)) return use;
  if (auto fix = fix_at_origin(evidence)) return fix;
  auto origin = say_device_where_placed(evidence, it, other);
  if (origin && !names(*origin, other)) return origin;
  return origin && (!use || names(*use, other)) ? origin : use;
}

// Moved by a thread that never chose a device, and met in one that did: the choice holds for its own thread only.
std::optional<Cause> other_thread(const Evidence& evidence) {
  // The threads of nn.DataParallel choose their devices for the replicas, whose fault is another one.
  if (std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                  [](const auto& each) { return each.replica; }))
    return std::nullopt;
  Evidence::Pair pair;
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands)
      if (!pair && it.device != other.device && evidence.by_another_threads_default(it, other)) pair = {&it, &other};
  if (!pair) return std::nullopt;
  const Frame& line = *pair.it->placed()->line();
  const DeviceChoice& chosen = pair.other->placed()->choice;
  const auto project = innermost_project(chosen.stack);
  const std::string where = project ? " at " + at(&chosen.stack[*project]) : std::string();
  // The line may as well have named the device.
  const bool current = says_current_device(line.source);
  Cause cause{
      kCategory, current ? Confidence::high : Confidence::medium,
      fmt::format("{} was put on {} at {} by another thread, whose current device that is by default: {} was made "
                  "current{} for this thread only, where {} was put.",
                  pair.it->name, pair.it->device, at(&line), chosen.device, where, pair.other->name),
      std::nullopt};
  if (current) {
    if (auto code = redirect_move(line.source, fmt::format("\"{}\"", pair.other->device)))
      cause.fix = repair_of(line, std::move(*code));
  }
  if (!cause.fix) cause.fix = move_where_named(evidence, *pair.it, *pair.other);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// It was where the work is, and a line that names no number has brought it away from there.
std::optional<Cause> taken_away(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    for (const Operand& other : evidence.operands) {
      if (it.is_state() || it.device == other.device || !evidence.taken_to_current_device(it, other)) continue;
      return Cause{kCategory, Confidence::medium,
                   fmt::format("{} was on {}, where the model and {} are, and {} brought it to {}, the device that is "
                               "current, which it names without a number, or not at all.",
                               it.name, it.moved.from, other.name, at(it.moved.line()), it.device),
                   fix_of(evidence, it, other)};
    }
  }
  return std::nullopt;
}

// Made by a part of the failing line itself: `x + torch.zeros(n, device="cuda")`.
std::optional<Cause> made_in_the_line(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) {
        return !it.placed() && !it.on_cpu() && !it.is_state() && says_current_device(it.expression);
      },
      [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  return Cause{kCategory, Confidence::medium,
               fmt::format("{} names a GPU without a number, which is the current device, {}; it meets {}.",
                           pair.it->expression, pair.it->device, with_place(*pair.other)),
               move_where_named(evidence, *pair.it, *pair.other)};
}

}  // namespace

std::optional<Cause> default_device(const Evidence& evidence) {
  if (auto cause = other_thread(evidence)) return cause;
  if (auto cause = taken_away(evidence)) return cause;
  if (auto cause = made_in_the_line(evidence)) return cause;
  // Of a model's state only where the rest of the model lies elsewhere: it was moved on its own.
  const auto pair = evidence.pair(
      [](const Operand& it) {
        const Event* placed = it.placed();
        return (!it.is_state() || it.root_devices.size() >= 2) && placed && placed->line() &&
               (says_current_device(placed->line()->source) || it.device_from.says == "cuda");
      },
      [](const Operand& other) { return !other.on_cpu() && !other.is_state(); });
  if (!pair) return std::nullopt;
  const Frame& line = *pair.it->placed()->line();

  Cause cause{kCategory, Confidence::medium,
              fmt::format("{} was put on the device that was current at {}, which is not the one of {}.", pair.it->name,
                          at(&line), with_place(*pair.other)),
              fix_of(evidence, *pair.it, *pair.other)};
  return cause;
}

}  // namespace devtrace::report::verdict::rules

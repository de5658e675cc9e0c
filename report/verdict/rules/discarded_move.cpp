// `x.to(device)` as a statement. A module moves itself; a tensor's .to() gives a copy, and nobody keeps it.
#include <functional>

#include "common/format.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

const Frame* dropped_at(const Operand& it) {
  for (const finding::Step& step : it.lineage)
    if (step.what == "discarded" && kept_move(step.line.source)) return &step.line;
  return nullptr;
}

}  // namespace

std::optional<Cause> discarded_move(const Evidence& evidence) {
  const auto dropped = [](const Operand& it) { return !it.is_of_state() && dropped_at(it); };
  const auto pair = evidence.pair(dropped, std::not_fn(dropped));
  // Or it was there already, and the line had nothing to do.
  if (!pair || !(pair.it->on_cpu() || dropped_at(*pair.it)->source.find(pair.other->device) != std::string::npos))
    return std::nullopt;
  const Frame& line = *dropped_at(*pair.it);
  return Cause{
      "input-not-moved", Confidence::high,
      fmt::format("{} drops what it makes: a tensor's .to() and .cuda() give a copy, and {} stays where it was. "
                  "It meets {}.",
                  at(&line), with_place(*pair.it), with_place(*pair.other)),
      repair_of(line, *kept_move(line.source))};
}

}  // namespace devtrace::report::verdict::rules

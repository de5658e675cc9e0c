// `x.to(device)` as a statement. A module moves itself; a tensor's .to() gives a copy, and nobody keeps it.
#include <functional>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

const finding::Step* dropped_at(const Operand& it) {
  for (const finding::Step& step : it.lineage)
    if (step.what == "discarded" && kept_move(step.line.source)) return &step;
  return nullptr;
}

}  // namespace

std::optional<Cause> discarded_move(const Evidence& evidence) {
  const auto dropped = [](const Operand& it) { return (!it.is_of_state() || it.is_state()) && dropped_at(it); };
  const auto pair = evidence.pair(dropped, std::not_fn(dropped));
  // Or it was there already, and the line had nothing to do.
  if (!pair || !(pair.it->on_cpu() || dropped_at(*pair.it)->line.source.find(pair.other->device) != std::string::npos))
    return std::nullopt;
  const finding::Step& step = *dropped_at(*pair.it);
  const Frame& line = step.line;
  const std::string branch = step.branch.empty() ? "" : fmt::format(", if `{}` was taken,", step.branch);
  return Cause{
      "input-not-moved", branch.empty() ? Confidence::high : Confidence::medium,
      fmt::format("{}{} drops what it makes: a tensor's .to() and .cuda() give a copy, and {} stays where it was. "
                  "It meets {}.",
                  at(&line), branch, with_place(*pair.it), with_place(*pair.other)),
      repair_of(line, *kept_move(line.source))};
}

}  // namespace devtrace::report::verdict::rules

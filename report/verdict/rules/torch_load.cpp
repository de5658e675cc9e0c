// A checkpoint says on which devices its tensors lay, and torch.load puts them there again: also where there are fewer.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> torch_load(const Evidence& evidence) {
  if (evidence.operation != "torch.load" || !evidence.message.starts_with("Attempting to deserialize object on "))
    return std::nullopt;
  constexpr std::string_view kDevice = "CUDA device ";
  const size_t at = evidence.message.find(kDevice);
  const std::string rest = at == evidence.message.npos ? "" : evidence.message.substr(at + kDevice.size());
  const std::string index = rest.substr(0, rest.find(' '));
  const std::string device = index.empty() ? "a CUDA device" : fmt::format("cuda:{}", index);
  const auto own = innermost_project(evidence.stack);
  // What is given by position, or by the caller of a library, the line does not show.
  const auto given = own ? keyword_argument(evidence.stack[*own].source, "map_location") : std::nullopt;
  const bool asked = given && (given->find(device) != given->npos || *given == index);
  Cause cause{
      "checkpoint-device", Confidence::high,
      asked ? fmt::format("map_location says {}, and this process has no such device.", device)
      : given
          ? fmt::format("map_location={} leaves tensors on {}, and this process has no such device.", *given, device)
          : fmt::format("The file was saved with tensors on {}, and this process has no such device: without "
                        "map_location torch.load puts each tensor where it was.",
                        device),
      std::nullopt};
  for (const Frame& frame : evidence.stack) {
    if (!frame.project) continue;
    if (auto code = give_map_location(frame.source, "\"cpu\"")) cause.fix = repair_of(frame, std::move(*code));
    break;
  }
  return cause;
}

// A model's own tensors are those of the file, where it says.
std::optional<Cause> state_of_a_file(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) { return it.is_state() && !it.on_cpu() && !it.moved.known() && line_that_read(it); },
      [](const Operand& other) { return !other.is_state() && !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Frame& line = *line_that_read(*pair.it);
  auto load = load_where(evidence, line, *pair.other);
  return Cause{
      "checkpoint-device", Confidence::medium,
      fmt::format("{} is the tensor of a file, which {} read to where it lay when it was saved, {}. It meets {}.",
                  pair.it->name, at(&line), pair.it->device, with_place(*pair.other)),
      load ? std::move(load) : repair_of(line, {})};
}

// Files of several ranks, or one that was saved from several devices.
std::optional<Cause> read_to_several_devices(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return line_of_load(it) != nullptr && !it.on_cpu(); },
                                  [](const Operand& other) { return line_of_load(other) != nullptr; });
  if (!pair || !line_of_load(*pair.it)->same_line(*line_of_load(*pair.other))) return std::nullopt;
  const Frame& line = *line_of_load(*pair.it);
  auto code = give_map_location(line.source, "\"cpu\"");
  if (!code || keyword_argument(line.source, "map_location")) return std::nullopt;
  return Cause{"checkpoint-device", Confidence::medium,
               fmt::format("{} read what had been saved from {} and from {}, and without map_location it lies there "
                           "again: {} meets {}.",
                           at(&line), pair.it->device, pair.other->device, pair.it->name, pair.other->name),
               repair_of(line, std::move(*code))};
}

std::optional<Cause> loaded(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return line_of_load(it) != nullptr; },
                                  [](const Operand& other) { return line_of_load(other) == nullptr; });
  if (!pair) return std::nullopt;
  // The file's tensor lies with the model: what it meets on the CPU, where nothing of that is, was left there.
  const bool with_model = !pair.it->on_cpu() && evidence.has_state_on(pair.it->device) && !evidence.has_state_on("cpu");
  if (with_model && pair.other->on_cpu() && !pair.other->is_of_state()) return std::nullopt;
  const Frame& line = *line_of_load(*pair.it);
  const auto given = keyword_argument(line.source, "map_location");
  Cause cause{"checkpoint-device", Confidence::medium,
              fmt::format("{} was read from a file at {}, which puts it where {}: {}. It meets {}.", pair.it->name,
                          at(&line), given ? fmt::format("map_location={} says", *given) : "it lay when it was saved",
                          pair.it->device, with_place(*pair.other)),
              std::nullopt};
  // A map_location was chosen for all that is in the file.
  auto use = use_site(evidence), load = load_where(evidence, line, *pair.other);
  cause.fix = !load || (given && use && !names(*use, *pair.other)) ? std::move(use) : std::move(load);
  return cause;
}

}  // namespace devtrace::report::verdict::rules

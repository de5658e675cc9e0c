// Ranks of one communicator that came with one device, and a rank whose tensor lies on another than its own. Mostly
// nobody chose it: CUDA takes the first in every process.
#include <algorithm>
#include <array>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/phrasing.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// A statement may stand in front of that line.
bool begins_a_statement(std::string_view line) {
  constexpr std::array kGoOn = {"else", "elif", "except", "finally", ")", "]", "}"};
  return !line.empty() && std::ranges::none_of(kGoOn, [&](std::string_view each) { return line.starts_with(each); });
}

std::optional<Fix> set_device_before_setup(const finding::GroupSetup& setup) {
  const std::string line = dedented(setup.line.source);
  if (setup.local_rank.empty() || !begins_a_statement(line)) return std::nullopt;
  return repair_of(setup.line, fmt::format("torch.cuda.set_device({})\n{}", setup.local_rank, line));
}

// That line as this rank's own stacks have it: with what stands around it.
const Frame& with_its_surroundings(const Evidence& evidence, const Frame& line) {
  for (const DeviceChoice& each : evidence.finding.device_changes)
    for (const Frame& frame : each.stack)
      if (frame.same_line(line) && frame.around.line > 0) return frame;
  return line;
}

// What a line gives to its only call of set_device; empty where it has none, or cannot know what the rank is called.
std::string_view chosen_in(const finding::GroupSetup& setup, const Frame& line) {
  const auto call = only_call(line.source, "set_device");
  const bool known = !setup.local_rank.empty() && line.file == setup.line.file;
  return known && call && call->arguments.size() == 1 ? call->arguments[0] : std::string_view();
}

// Of `torch.cuda.set_device(gpu)` the line that says what gpu is, if it is in sight: more than this may go by it.
std::optional<Fix> chosen_by_local_rank(const Evidence& evidence, const finding::GroupSetup& setup,
                                        const Frame& choice) {
  const std::string_view chosen = chosen_in(setup, choice);
  if (is_identifier(chosen))
    if (const auto above = assigned_above(with_its_surroundings(evidence, choice), chosen))
      return repair_of(*above, fmt::format("{} = {}", chosen, setup.local_rank));
  return set_device_by_rank(setup, choice);
}

// Has the program chosen a device for this thread? PyTorch's guards, and what begins a process group, are no choice.
bool sets_a_device(const Finding& finding) {
  return std::ranges::any_of(finding.device_changes, [](const DeviceChoice& each) {
    return std::ranges::any_of(each.stack, [](const Frame& frame) {
      return frame.project && frame.source.find("set_device(") != frame.source.npos;
    });
  });
}

bool chose_none(const Operand& rank) {
  return rank.created.call == "chose no device";
}

// Where a statement names the device: `"cuda:0"`, `torch.device("cuda:0")`, `torch.device("cuda", 0)`, `.cuda(0)`,
// `.to(0)`, `device=0`. Empty where it does not, or in two places.
std::string_view written_device(std::string_view source, std::string_view device) {
  const std::string_view index = device.substr(device.find(':') + 1);
  std::vector<std::string_view> places;
  const auto add = [&](const std::string& text) {
    for (size_t at = source.find(text); at != source.npos; at = source.find(text, at + 1)) {
      const std::string_view place = source.substr(at, text.size());
      const bool within = std::ranges::any_of(
          places, [&](std::string_view each) { return each.data() <= place.data() && place.end() <= each.end(); });
      if (!within) places.push_back(place);
    }
  };
  for (const char quote : {'"', '\''}) {
    add(fmt::format("torch.device({0}{1}{0})", quote, device));
    add(fmt::format("torch.device({0}cuda{0}, {1})", quote, index));
    add(fmt::format("{0}{1}{0}", quote, device));
  }
  for (const std::string_view function : {"cuda", "to"})
    if (const auto call = only_call(source, function); call && call->arguments.size() == 1)
      if (call->arguments[0] == index) places.push_back(call->arguments[0]);
  add(fmt::format("device={}", index));
  return places.size() == 1 ? places.front() : std::string_view();
}

// `device="cuda:0"` with the rank's own: a device by its number is that of one rank alone. What the rank is called is
// known in the file of the setup, else an expression of the line's that means the device.
std::optional<Fix> placed_by_rank(const finding::GroupSetup& setup, const Operand& it, const Frame& line,
                                  std::string_view wanted) {
  std::string own;
  for (const finding::Step& step : it.lineage)
    if (step.line.same_line(line)) own = expression_of(step, wanted);
  if (!setup.local_rank.empty() && line.file == setup.line.file)
    own = fmt::format("torch.device(\"cuda\", {})", setup.local_rank);
  if (own.empty()) return std::nullopt;
  const std::string_view written = written_device(line.source, it.device);
  if (written.empty()) return std::nullopt;
  if (written.starts_with("device=")) own = "device=" + own;
  std::string code = line.source;
  code.replace(static_cast<size_t>(written.data() - line.source.data()), written.size(), own);
  return repair_of(line, dedented(code));
}

}  // namespace

std::optional<Fix> set_device_by_rank(const finding::GroupSetup& setup, const Frame& line) {
  const std::string_view chosen = chosen_in(setup, line);
  if (chosen.empty()) return std::nullopt;
  std::string code(line.source);
  code.replace(static_cast<size_t>(chosen.data() - line.source.data()), chosen.size(), setup.local_rank);
  return repair_of(line, dedented(code));
}

std::optional<Cause> duplicate_device(const Evidence& evidence) {
  if (evidence.kind != "duplicate-device" || evidence.operands.empty()) return std::nullopt;
  const auto& ranks = evidence.finding.of<finding::Ranks>();
  const auto& [function, size, rank, local_rank, visible] = ranks.communicator;
  const std::string& device = evidence.operands.front().device;
  if (visible && size && local_rank && *local_rank >= *visible)
    return Cause{"more-ranks-than-devices", Confidence::high,
                 fmt::format("This is local rank {}, and its process sees {} CUDA device{}: there is none for it.",
                             *local_rank, *visible, *visible == 1 ? "" : "s"),
                 std::nullopt};
  if (std::ranges::all_of(evidence.operands, chose_none))
    return Cause{"missing-set-device", Confidence::high,
                 fmt::format("No rank made a device its current one, and CUDA then takes {} in each of their "
                             "processes: {} the same. torch.cuda.set_device gives each rank its own.",
                             device, evidence.operands.size() == 1 ? "another rank has" : "they have"),
                 set_device_before_setup(ranks.setup)};
  // A line that gives each rank its own device, and the communicator is on one all the same: what it works with was
  // there before.
  for (const Operand& each : evidence.operands)
    if (const Frame* const choice = each.created.line();
        choice && !ranks.setup.local_rank.empty() && chosen_in(ranks.setup, *choice) == ranks.setup.local_rank)
      return Cause{"device-chosen-late", Confidence::medium,
                   fmt::format("{} gives each rank its own device, and what this call works with lay on {} before: "
                               "whatever is on a GPU already stays there.",
                               at(choice), device),
                   set_device_before_setup(ranks.setup)};
  for (const Operand& each : evidence.operands)
    if (const Frame* const choice = each.created.line(); choice && choice->project)
      return Cause{"device-chosen-twice", Confidence::high,
                   fmt::format("{} has {} because {} chose it, and that line gives other ranks the same device: the "
                               "rank on its machine (LOCAL_RANK) says which is its own.",
                               each.name, device, at(choice)),
                   chosen_by_local_rank(evidence, ranks.setup, *choice)};
  const bool some_chose_none = std::ranges::any_of(evidence.operands, chose_none);
  return Cause{"device-chosen-twice", Confidence::medium,
               fmt::format("{} lies where this call works: its tensors, or the device_id of the process group, say "
                           "so, and not the rank.",
                           device),
               some_chose_none ? set_device_before_setup(ranks.setup) : std::nullopt};
}

std::optional<Cause> collective_elsewhere(const Evidence& evidence) {
  if (!evidence.operation.starts_with("torch.distributed.") || evidence.operands.empty()) return std::nullopt;
  const finding::GroupSetup& setup = evidence.refusal.setup;
  const auto mismatched = std::ranges::find_if(evidence.operands, [](const Operand& each) { return each.mismatched; });
  const Operand& it = mismatched == evidence.operands.end() ? evidence.operands.front() : *mismatched;
  const bool of_the_host = it.on_cpu() && evidence.message.starts_with("No backend type associated with device type");
  // A group of NCCL's works on the rank's current device where nobody has said another.
  const std::string& wanted = of_the_host ? evidence.current_device : evidence.refusal.wanted_device;
  const Event* const placed = it.placed();
  if (!wanted.starts_with("cuda") || it.device == wanted || !placed || !placed->line()) return std::nullopt;
  const Frame& line = *placed->line();
  if (of_the_host)
    return Cause{"created-without-device", Confidence::medium,
                 fmt::format("{} is on the CPU, and the process group has no backend for it: NCCL's collectives take "
                             "tensors of the rank's GPU.",
                             with_place(it)),
                 fix_at_origin_of(evidence, it, wanted)};
  if (auto fix = placed_by_rank(setup, it, line, wanted))
    return Cause{"device-of-another-rank", Confidence::high,
                 fmt::format("The process group of this rank is on {}, and {} is where its line says, whichever rank "
                             "runs it.",
                             wanted, with_place(it)),
                 std::move(fix)};
  if (line_of_load(it)) {
    std::optional<Fix> fix;
    for (const finding::Step& step : it.lineage) {
      const std::string_view device = expression_of(step, wanted);
      if (!device.empty() && step.line.same_line(line) && !keyword_argument(line.source, "map_location"))
        if (auto code = give_map_location(line.source, device)) fix = repair_of(line, std::move(*code));
    }
    return Cause{"checkpoint-device", Confidence::high,
                 fmt::format("{} was read from a file, which puts it where it lay when it was saved, whichever rank "
                             "reads it; the process group of this rank is on {}.",
                             with_place(it), wanted),
                 fix ? std::move(fix) : repair_of(line, {})};
  }
  if (!setup.line.known() || (!placed->choice.by_default && (it.device != "cuda:0" || sets_a_device(evidence.finding))))
    return std::nullopt;
  return Cause{"missing-set-device", Confidence::high,
               fmt::format("The process group of this rank is on {}, and {} is on the first device, as this rank made "
                           "none its current one.",
                           wanted, with_place(it)),
               set_device_before_setup(setup)};
}

}  // namespace devtrace::report::verdict::rules

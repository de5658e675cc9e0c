// An error of PyTorch's that says where something lies: judged, gathered, decided, reported.
#include <algorithm>
#include <utility>
#include <vector>

#include "tracker/findings/findings.h"
#include "tracker/findings/refusal_evidence.h"
#include "tracker/findings/reporting.h"
#include "tracker/python/gil/kept_references.h"
#include "tracker/python/python_api.h"
#include "tracker/refusals/classify.h"
#include "tracker/refusals/decide.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::findings {
namespace {

using finding::Finding;
using refusals::Repetition;

bool runs_in(const std::vector<stacks::PythonFrame>& frames, const stacks::PythonFrame& function) {
  return std::any_of(frames.begin(), frames.end(), [&](const stacks::PythonFrame& each) {
    return each.file == function.file && each.function == function.function;
  });
}

// PyTorch's own checks repeat nothing that was before. What is new is kept for what may repeat it.
Repetition repetition_of(const events::Refused& refusal) {
  using How = refusals::RecentMessages::How;
  const bool in_python = refusal.raised == events::Raised::in_python;
  const python::Api* api = in_python ? python::api() : nullptr;
  const std::optional<std::string> handled = api ? python::handled_exception(*api) : std::nullopt;
  const How how = !in_python ? How::thrown : handled ? How::while_handling : How::in_python;
  const stacks::StackId here = stacks::capture_python();
  stacks::StackId before = 0;
  bool same = false;
  with_recent_messages([&](refusals::RecentMessages& errors) {
    same = refusal.raised != events::Raised::checked && errors.repeats(refusal.message, how);
    if (same) return;
    if (handled) before = errors.raised_at(*handled);
    errors.add(refusal.message, in_python, here);
  });
  if (same) return Repetition::same;
  if (before == 0 || here == 0) return Repetition::none;
  const std::vector<stacks::PythonFrame> frames = stacks::resolve(here);
  return !frames.empty() && runs_in(stacks::resolve(before), frames[0]) ? Repetition::rephrased : Repetition::none;
}

std::string first_line(std::string_view text) {
  constexpr size_t kLongest = 4000;
  return std::string(text.substr(0, std::min(text.find('\n'), kLongest)));
}

// Those that are meant, as they were decided to be.
finding::List<finding::Operand> operands_of(const refusals::Decision& decision, std::vector<finding::Operand>& all) {
  finding::List<finding::Operand> operands;
  for (const auto& [index, mismatched] : decision.operands)
    operands.emplace_back(std::move(all[index])).mismatched = mismatched;
  return operands;
}

// Nothing when the evidence says that this was no refusal of mixed devices. Takes the GIL, and does without where it
// does not come; holds no lock.
std::optional<Finding> find(const events::Refused& refusal, const refusals::RefusalMessage& message,
                            Repetition repetition) {
  RefusalEvidence evidence = refusal_evidence(refusal, message, repetition);
  refusals::Decision decision = refusals::decide(refusal, message, evidence.facts);
  if (!decision.refusal) return std::nullopt;
  Finding& finding = evidence.finding;
  if (decision.note) {
    finding.severity = "note";
    finding.note = *decision.note;
  }
  finding.message = first_line(refusal.message);
  finding.operation = std::move(decision.operation.name);
  finding.argument = std::move(decision.argument);
  finding.current_device = current_device();
  finding.devices = finding::List<std::string>::all(std::move(decision.devices));
  finding.operands = operands_of(decision, finding.operands);
  auto& facts = std::get<finding::Refusal>(finding.facts);
  facts.overload = std::move(decision.operation.overload);
  facts.method = std::move(decision.method);
  facts.wanted_device = std::move(decision.wanted_device);
  facts.handles = decision.handles;
  facts.device_count = decision.device_count;
  return std::move(finding);
}

void report_refusal(const events::Refused& refusal, python::KeptReferences& kept) {
  const refusals::RefusalMessage message = refusals::classify(refusal);
  if (message.likelihood == refusals::Likelihood::none) return;
  const bool checked = refusal.raised == events::Raised::checked;
  // Anybody's error, as often as he likes: evidence is gathered only where the message speaks of two devices, or is
  // known, and once for each call.
  if (!checked && !message.may_be_refusal()) return;
  if (const python::Api* const api = python::api(); api && python::holds_gil(*api)) kept.use(*api);
  const Repetition repetition = repetition_of(refusal);
  if (repetition == Repetition::same) return;
  uint64_t key;
  if (checked) {
    key = call_key({refusal.message.substr(0, 2048), refusal.function, refusal.file});
  } else {
    std::string devices = repetition == Repetition::rephrased ? "again " : "";
    for (const std::string& device : message.devices_named) devices += device + ' ';
    key = call_key({devices});
  }
  if (!report_once(
          key, [&] { return find(refusal, message, repetition); }, !checked))
    return;
  with_recent_messages([&](refusals::RecentMessages& errors) { errors.found(refusal.message); });
}

}  // namespace

void report(const events::Refused& refusal) {
  python::KeptReferences kept;  // the program's `__del__` runs when nothing of ours does any more
  run([&] { report_refusal(refusal, kept); });
}

}  // namespace devtrace::findings

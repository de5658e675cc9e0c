// An error of PyTorch's that says where something lies: judged, gathered, decided, reported.
#include <string>
#include <utility>
#include <vector>

#include "tracker/evidence/source/group_setup.h"
#include "tracker/findings/findings.h"
#include "tracker/findings/refusal_evidence.h"
#include "tracker/findings/reporting.h"
#include "tracker/memory/library_handles.h"
#include "tracker/python/gil/kept_references.h"
#include "tracker/python/python_api.h"
#include "tracker/refusals/classify.h"
#include "tracker/refusals/decide.h"
#include "tracker/refusals/recent_messages.h"

namespace devtrace::findings {
namespace {

using finding::Finding;
using refusals::Repetition;

// Those that are meant, as they were decided to be.
finding::List<finding::Operand> operands_of(const refusals::Decision& decision, std::vector<finding::Operand>& all) {
  finding::List<finding::Operand> operands;
  for (const auto& [index, mismatched] : decision.operands)
    operands.emplace_back(std::move(all[index])).mismatched = mismatched;
  return operands;
}

Finding finding_of(refusals::Decision decision, Finding finding) {
  if (decision.note) {
    finding.severity = "note";
    finding.note = *decision.note;
  }
  finding.operation = std::move(decision.operation.name);
  finding.argument = std::move(decision.argument);
  finding.devices = finding::List<std::string>::all(std::move(decision.devices));
  finding.operands = operands_of(decision, finding.operands);
  auto& facts = std::get<finding::Refusal>(finding.facts);
  facts.overload = std::move(decision.operation.overload);
  facts.method = std::move(decision.method);
  facts.wanted_device = std::move(decision.wanted_device);
  facts.handles = decision.handles;
  facts.device_count = decision.device_count;
  // A device that is not there may be a rank's, counted through all machines.
  if (facts.device_count) facts.setup = evidence::group_setup(finding.stack);
  return finding;
}

void report_refusal(const events::Refused& refusal, python::KeptReferences& kept) {
  refusals::RefusalMessage message = refusals::classify(refusal);
  if (message.likelihood == refusals::Likelihood::none) return;
  if (message.known && message.known->row->of_group && message.known->wanted.empty())
    if (const Device group = memory::library_handles::only_device_of("nccl"); group.known())
      message.known->wanted = group.name();
  const bool checked = refusal.raised == events::Raised::checked;
  // Anybody's error, as often as he likes: evidence is gathered only where the message speaks of two devices, or is
  // known, and once for each call.
  if (!checked && !message.may_be_refusal()) return;
  if (const python::Api* const api = python::api(); api && python::holds_gil(*api)) kept.use(*api);
  const Repetition repetition = refusals::recent_messages::repetition_of(refusal);
  if (repetition == Repetition::same) return;
  // Nothing when the evidence says that this was no refusal of mixed devices. Holds no lock.
  const auto find = [&]() -> std::optional<Finding> {
    RefusalEvidence evidence = refusal_evidence(refusal, message, repetition);
    refusals::Decision decision = refusals::decide(refusal, message, evidence.facts);
    if (!decision.refusal) return std::nullopt;
    return finding_of(std::move(decision), std::move(evidence.finding));
  };
  // A check is told from others by all that it says, an exception by its devices alone, for its words may differ.
  std::string devices = repetition == Repetition::rephrased ? "again " : "";
  for (const std::string& device : message.devices_named) devices += device + ' ';
  const bool found = checked ? report_once({refusal.message.substr(0, 2048), refusal.function, refusal.file}, find)
                             : report_once({devices}, find, true);
  if (found) refusals::recent_messages::was_found(refusal);
}

}  // namespace

void report(const events::Refused& refusal) {
  python::KeptReferences kept;  // the program's `__del__` runs when nothing of ours does any more
  run([&] { report_refusal(refusal, kept); });
}

}  // namespace devtrace::findings

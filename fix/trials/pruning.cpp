#include "fix/trials/pruning.h"

#include <algorithm>

#include "common/format.h"

namespace devtrace::fix {
namespace {

// The finding and where its operands lie: what an edit does to another mixture of devices is not known.
std::string mixture(const RecordedFinding& finding) {
  std::string all = finding.identity();
  for (const auto& operand : finding.finding.operands) all += fmt::format(" {}", operand.device);
  return all;
}

std::string edit_for(const RecordedFinding& finding, const Candidate& candidate) {
  return fmt::format("{}\n{}", mixture(finding), candidate.identity);
}

// `device` of "AttributeError: 'int' object has no attribute 'device'"; empty for another line.
std::string missing_attribute(const std::string& line) {
  constexpr std::string_view kSaid = "has no attribute '";
  const size_t at = line.find(kSaid);
  if (at == line.npos || !line.starts_with("AttributeError")) return {};
  const size_t begin = at + kSaid.size();
  return line.substr(begin, line.find('\'', begin) - begin);
}

}  // namespace

void Pruning::learn(const RecordedFinding& finding, const Tried& tried) {
  if (tried.judgement.result != Result::failed || tried.outcome.timed_out) return;
  const Candidate& candidate = tried.candidate;
  const std::string target = finding.identity();
  for (const RecordedFinding& each : tried.outcome.findings)
    if (each.identity() == target) useless_.insert(edit_for(finding, candidate));
  const std::string missing = tried.outcome.findings.empty() ? missing_attribute(tried.outcome.last_line) : "";
  if (missing.empty()) return;
  if (candidate.asks.find("." + missing) != candidate.asks.npos) unknown_devices_.insert(candidate.asks);
  if (missing == "to" && !candidate.alternatives.empty()) immovable_.insert(candidate.alternatives);
}

bool Pruning::needless(const RecordedFinding& finding, const Candidate& candidate) const {
  return useless_.contains(edit_for(finding, candidate)) || unknown_devices_.contains(candidate.asks) ||
         immovable_.contains(candidate.alternatives);
}

bool Pruning::said_already(const std::vector<Tried>& round, const Candidate& candidate) {
  return !candidate.alternatives.empty() && std::any_of(round.begin(), round.end(), [&](const Tried& each) {
    return each.judgement.result != Result::failed && each.candidate.alternatives == candidate.alternatives;
  });
}

}  // namespace devtrace::fix

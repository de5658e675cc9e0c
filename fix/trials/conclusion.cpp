#include "fix/trials/conclusion.h"

#include <algorithm>

#include "common/format.h"

namespace devtrace::fix {
namespace {

// What the runs leave open, a sentence each.
std::vector<std::string> open_questions(const SearchResult& result) {
  std::vector<std::string> open;
  const Outcome& after = result.after;
  if (!after.values) {
    open.push_back("No values were computed (--no-values): what depends on them may go another way.");
  } else if (!after.not_computed.empty()) {
    constexpr size_t kMost = 3;
    std::string names;
    for (size_t i = 0; i < after.not_computed.size() && i < kMost; ++i)
      names += fmt::format("{}{}", i ? ", " : "", after.not_computed[i]);
    if (after.not_computed.size() > kMost) names += fmt::format(" and {} more", after.not_computed.size() - kMost);
    open.push_back(fmt::format("The values of {} were not computed: what depends on them may go another way.", names));
  }
  if (after.timed_out)
    open.push_back(fmt::format("The program was ended after {:.0f} s; what comes later was not run.", after.seconds));
  if (result.prints_as_reference == false)
    open.push_back(
        "It prints something else than it would on one device: look at it, unless it prints times or addresses, or "
        "draws random numbers elsewhere now.");
  const auto names_device = [](const Round& round) {
    return round.chosen && round.tried[*round.chosen].candidate.names_device;
  };
  if (std::any_of(result.rounds.begin(), result.rounds.end(), names_device))
    open.push_back(
        "The patch names a device by its number: where the devices have other numbers, say what the program says for "
        "its own.");
  const Round* last = result.rounds.empty() ? nullptr : &result.rounds.back();
  if (last && last->chosen && last->tried[*last->chosen].moves_work) {
    open.push_back(
        "It moves the work: a device has less than half of the launches that it had, or that it has with another "
        "edit.");
  }
  return open;
}

// The verdict, after what the runs have shown. An edit of a kind that repairs one sort of mistake speaks for that sort;
// a report whose own line did not help is less sure.
void learn_from(const Round& round, finding::Cause& cause) {
  const Tried& chosen = round.tried[*round.chosen];
  const auto failed = [](const Tried& each) {
    return each.candidate.kind == "reported-fix" && each.judgement.result == Result::failed;
  };
  const bool doubted = std::any_of(round.tried.begin(), round.tried.end(), failed);
  if (doubted && cause.confidence == "high") cause.confidence = "medium";
  const bool unknown = cause.category.empty() || cause.category == "unknown";
  const bool guessed = unknown || cause.confidence == "low";
  const Tried* speaks = chosen.candidate.category.empty() ? nullptr : &chosen;
  for (const Tried& each : round.tried) {
    if (speaks || !unknown) break;
    if (each.judgement.result == chosen.judgement.result && !each.candidate.category.empty() && !each.moves_work)
      speaks = &each;
  }
  if (speaks && (guessed || doubted)) {
    cause.category = speaks->candidate.category;
    cause.confidence = "medium";
    cause.because = fmt::format("In rehearsal this edit repaired it: {}.", speaks->candidate.title);
  }
  const bool only_moves = chosen.candidate.kind == "move-at-use" || chosen.candidate.kind == "move-result";
  cause.repairs = chosen.candidate.category.empty() && only_moves ? "line" : "cause";
}

// A finding with the edit that was chosen for it.
finding::Finding with_verified(const SearchResult& result, const Round& round, const std::string& patch,
                               const std::vector<std::string>& open) {
  finding::Finding finding = round.finding.finding;
  if (!round.chosen) return finding;
  const Candidate& chosen = round.tried[*round.chosen].candidate;
  finding::Cause& cause = finding.cause;
  cause.fix = chosen.code;
  cause.file = chosen.file;
  cause.line = chosen.line;
  cause.also.clear();
  learn_from(round, cause);
  const Moved moved = moved_by(result.edits, result.after);
  finding::Verified& verified = cause.verified;
  verified.outcome = word(result.solved ? Result::ran_to_end : Result::further);
  verified.findings_before = result.rounds.size() + result.after.findings.size();
  verified.findings_after = result.after.findings.size();
  verified.same_output = result.prints_as_reference == true;
  verified.patch = patch;
  verified.bytes_per_step = moved.a_step;
  verified.bytes = moved.bytes;
  verified.runs = result.runs;
  verified.devices_with_work.known = true;
  for (const auto& [device, count] : result.after.launches)
    if (count > 0) verified.devices_with_work.push_back(device);
  verified.open = open;
  return finding;
}

}  // namespace

Conclusion conclusion(const SearchResult& result, const std::string& patch) {
  Conclusion all{{}, open_questions(result)};
  for (const Round& round : result.rounds) all.findings.push_back(with_verified(result, round, patch, all.open));
  const auto& left = result.rounds.empty() ? result.before.findings : result.after.findings;
  for (const RecordedFinding& each : left) all.findings.push_back(each.finding);
  for (size_t i = 0; i < all.findings.size(); ++i) all.findings[i].id = static_cast<int64_t>(i + 1);
  return all;
}

}  // namespace devtrace::fix

#include "cli/fix/text.h"

#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {
namespace {

// One paragraph: what came of it.
std::string summary(const fix::SearchResult& result, const fix::Conclusion& conclusion, const std::string& patch) {
  const size_t edits = result.rounds.size(), left = result.after.findings.size();
  std::string text;
  if (result.solved) {
    text = fmt::format(
        "verified: with this change the program ran to its end in rehearsal; {} finding{} before, 0 after; {}{}", edits,
        edits == 1 ? "" : "s", result.prints_as_reference == true ? "it prints what it would on one device; " : "",
        patch);
  } else if (edits > 0) {
    text = fmt::format(
        "not verified to the end: with {} edit{} the program got further in rehearsal, {}; the nearest is in {}", edits,
        edits == 1 ? "" : "s",
        left ? fmt::format("to {} further finding{}", left, left == 1 ? "" : "s")
             : fmt::format("and then: {}", result.after.end()),
        patch);
  } else {
    text = "no edit was found with which the program gets further";
  }
  for (const std::string& each : conclusion.open) text += fmt::format("\n{}", each);
  return text;
}

// What was tried for one finding, a line each.
std::string table(const fix::Round& round) {
  std::string out;
  for (size_t i = 0; i < round.tried.size(); ++i) {
    const fix::Tried& each = round.tried[i];
    const auto& file = each.candidate.file;
    out +=
        fmt::format("  {} {:<10}  {:>5.1f} s  {}:{}  {}\n", round.chosen == i ? "*" : " ", word(each.judgement.result),
                    each.outcome.seconds, file.substr(file.rfind('/') + 1), each.candidate.line, each.candidate.title);
    if (each.judgement.result != fix::Result::ran_to_end)
      out += fmt::format("                         {}\n", each.judgement.why);
    if (const auto moved = moved_by(each.candidate, each.outcome);
        moved.a_step > 0 && each.judgement.result == fix::Result::ran_to_end)
      out += fmt::format("                         copies {} bytes each time it runs\n", moved.a_step);
    if (each.prints_otherwise) out += "                         prints something else than it would on one device\n";
    if (each.moves_work)
      out += "                         the work moves: a device has less than half of its launches\n";
  }
  return fmt::format("tried for {} (fingerprint {}){}:\n{}", printable(round.finding.place()),
                     round.finding.finding.fingerprint, round.chosen ? ", * is in the patch" : "",
                     printable(out, true));
}

}  // namespace

void print_fix_text(const fix::SearchResult& result, const fix::Conclusion& conclusion, const std::string& patch) {
  const std::string end = summary(result, conclusion, patch);
  for (const auto* rounds : {&result.rounds, &result.given_up})
    for (const fix::Round& round : *rounds) fmt::print("{}\n", table(round));
  if (!patch.empty()) fmt::print("{}\n", printable(result.edits.patch, true));
  if (!result.trouble.empty()) fmt::print(stderr, "devtrace fix: {}\n", printable(result.trouble, true));
  if (result.out_of_time) fmt::print("The time was over ({:.0f} s; --budget gives more).\n", result.budget);
  fmt::print("{}\n", printable(end, true));
}

}  // namespace devtrace::cli

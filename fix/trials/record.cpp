#include "fix/trials/record.h"

#include <algorithm>
#include <chrono>

#include "report/base/format.h"
#include "report/base/json_access.h"

namespace devtrace::fix {
namespace {

struct Moved {
  uint64_t bytes = 0, a_step = 0;
};

// What the lines that the patch adds have moved: in all, and each time they ran.
Moved moved_by(const Candidate& edits, const Outcome& outcome) {
  Moved moved;
  for (const Json& site : outcome.traffic) {
    for (const Json& frame : report::array(site, "python")) {
      if (!report::flag(frame, "project")) continue;
      const Json& lines = report::array(edits.added, std::string(report::string(frame, "file")).c_str());
      const auto line = report::integer(frame, "line");
      if (line && std::find(lines.begin(), lines.end(), *line) != lines.end()) {
        const auto bytes = static_cast<uint64_t>(report::integer(site, "bytes").value_or(0));
        const auto copies = static_cast<uint64_t>(std::max<int64_t>(1, report::integer(site, "copies").value_or(1)));
        moved.bytes += bytes;
        moved.a_step += bytes / copies;
      }
      break;
    }
  }
  return moved;
}

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

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The verdict, after what the runs have shown. An edit of a kind that repairs one sort of mistake speaks for that sort;
// a report whose own line did not help is less sure.
void learn_from(const Round& round, Json& cause) {
  const Tried& chosen = round.tried[*round.chosen];
  const auto failed = [](const Tried& each) {
    return each.candidate.kind == "reported-fix" && each.judgement.result == Result::failed;
  };
  const bool doubted = std::any_of(round.tried.begin(), round.tried.end(), failed);
  if (doubted && report::string(cause, "confidence") == "high") cause["confidence"] = "medium";
  const auto category = report::string(cause, "category");
  const bool unknown = category.empty() || category == "unknown";
  const bool guessed = unknown || report::string(cause, "confidence") == "low";
  const Tried* speaks = chosen.candidate.category.empty() ? nullptr : &chosen;
  for (const Tried& each : round.tried) {
    if (speaks || !unknown) break;
    if (each.judgement.result == chosen.judgement.result && !each.candidate.category.empty() && !each.moves_work)
      speaks = &each;
  }
  if (speaks && (guessed || doubted)) {
    cause["category"] = speaks->candidate.category;
    cause["confidence"] = "medium";
    cause["because"] = fmt::format("In rehearsal this edit repaired it: {}.", speaks->candidate.title);
  }
  const bool only_moves = chosen.candidate.kind == "move-at-use" || chosen.candidate.kind == "move-result";
  cause["repairs"] = chosen.candidate.category.empty() && only_moves ? "line" : "cause";
}

Json tried_json(const Tried& each) {
  Json out = {{"kind", each.candidate.kind}, {"title", each.candidate.title},
              {"file", each.candidate.file}, {"line", each.candidate.line},
              {"code", each.candidate.code}, {"outcome", word(each.judgement.result)},
              {"why", each.judgement.why},   {"seconds", each.outcome.seconds},
              {"bytes", each.outcome.bytes}, {"launches", each.outcome.launches}};
  if (each.moves_work) out["moves_work"] = true;
  return out;
}

// A finding with the edit that was chosen for it.
Json with_verified(const SearchResult& result, size_t number, const std::string& patch) {
  const Round& round = result.rounds[number];
  Json finding = round.finding.finding;
  finding["id"] = number + 1;
  if (!round.chosen) return finding;
  const Tried& chosen = round.tried[*round.chosen];
  Json& cause = finding["cause"];
  if (!cause.is_object()) cause = Json::object();
  cause["fix"] = chosen.candidate.code;
  cause["file"] = chosen.candidate.file;
  cause["line"] = chosen.candidate.line;
  learn_from(round, cause);
  const Moved moved = moved_by(result.edits, result.after);
  Json verified = {{"outcome", word(result.solved ? Result::ran_to_end : Result::further)},
                   {"findings_before", result.rounds.size() + result.after.findings.size()},
                   {"findings_after", result.after.findings.size()},
                   {"patch", patch},
                   {"bytes_per_step", moved.a_step},
                   {"bytes", moved.bytes},
                   {"runs", result.runs}};
  Json devices = Json::array();
  for (const auto& [device, count] : result.after.launches)
    if (count > 0) devices.push_back(device);
  verified["devices_with_work"] = devices;
  if (const auto open = open_questions(result); !open.empty()) verified["open"] = open;
  cause["verified"] = verified;
  return finding;
}

}  // namespace

std::vector<Json> records(const SearchResult& result, const std::string& patch) {
  std::vector<Json> all;
  if (result.before.findings.empty()) return all;
  all.push_back(result.before.findings.front().process);
  for (size_t i = 0; i < result.rounds.size(); ++i) all.push_back(with_verified(result, i, patch));
  const auto pid = report::integer(all.front(), "pid").value_or(0);
  const auto left = result.rounds.empty() ? result.before.findings : result.after.findings;
  for (const Found& each : left) {
    Json finding = each.finding;
    finding["id"] = all.size();
    all.push_back(std::move(finding));
  }
  const auto fix_record = [&](const Round& round, const Json& chosen) {
    Json tried = Json::array();
    for (const Tried& each : round.tried) tried.push_back(tried_json(each));
    Json record = {
        {"record", "fix"}, {"fingerprint", report::string(round.finding.finding, "fingerprint")}, {"tried", tried}};
    if (!chosen.is_null()) record["chosen"] = chosen;
    all.push_back(std::move(record));
  };
  for (const Round& round : result.rounds) fix_record(round, round.chosen ? Json(*round.chosen) : Json());
  for (const Round& round : result.given_up) fix_record(round, Json());
  all.push_back({{"record", "end"},
                 {"time", now()},
                 {"findings", result.rounds.size() + left.size()},
                 {"dropped", 0},
                 {"exit", result.after.code}});
  for (Json& record : all) record["pid"] = pid;
  return all;
}

std::string table(const Round& round) {
  std::string out;
  for (size_t i = 0; i < round.tried.size(); ++i) {
    const Tried& each = round.tried[i];
    const auto& file = each.candidate.file;
    out +=
        fmt::format("  {} {:<10}  {:>5.1f} s  {}:{}  {}\n", round.chosen == i ? "*" : " ", word(each.judgement.result),
                    each.outcome.seconds, file.substr(file.rfind('/') + 1), each.candidate.line, each.candidate.title);
    if (each.judgement.result != Result::ran_to_end)
      out += fmt::format("                         {}\n", each.judgement.why);
    if (each.moves_work)
      out += "                         the work moves: a device has less than half of its launches\n";
  }
  return out;
}

std::string summary(const SearchResult& result, const std::string& patch) {
  const size_t edits = result.rounds.size(), left = result.after.findings.size();
  std::string text;
  if (result.solved) {
    text = fmt::format(
        "verified: with this change the program ran to its end in rehearsal; {} finding{} before, 0 after; {}", edits,
        edits == 1 ? "" : "s", patch);
  } else if (edits > 0) {
    text = fmt::format(
        "not verified to the end: with {} edit{} the program got further in rehearsal, {}; the nearest is in {}", edits,
        edits == 1 ? "" : "s",
        left ? fmt::format("to {} further finding{}", left, left == 1 ? "" : "s")
             : fmt::format("and then: {}", result.after.last_line),
        patch);
  } else {
    text = "no edit was found with which the program gets further";
  }
  for (const std::string& each : open_questions(result)) text += fmt::format("\n{}", each);
  return text;
}

}  // namespace devtrace::fix

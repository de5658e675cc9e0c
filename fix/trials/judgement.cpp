#include "fix/trials/judgement.h"

#include <algorithm>

#include "common/format.h"

namespace devtrace::fix {

const char* word(Result result) {
  return result == Result::ran_to_end ? "ran-to-end" : result == Result::further ? "further" : "failed";
}

namespace {

// A parameter that was on GPUs only and now is on none; empty: there is none. Nothing is said of a program that
// offloads: its hooks bring parameters from meta and back.
std::string taken_away(const Outcome& before, const Outcome& after) {
  const auto on_gpu = [](const std::string& device) { return device.starts_with("cuda"); };
  for (const auto& [name, devices] : before.placement)
    if (devices.contains("meta")) return {};
  for (const auto& [name, devices] : before.placement) {
    const auto now = after.placement.find(name);
    if (now != after.placement.end() && std::all_of(devices.begin(), devices.end(), on_gpu) &&
        std::none_of(now->second.begin(), now->second.end(), on_gpu))
      return fmt::format("{} lies on {} then", name.substr(name.rfind(' ') + 1), *now->second.begin());
  }
  return {};
}

// Why a run that ended well shows no repair; empty: it may.
std::string no_repair(const Outcome& before, const Outcome& after) {
  if (before.all_launches() > 0 && after.all_launches() == 0) return "nothing runs on a GPU any more";
  if (std::string away = taken_away(before, after); !away.empty()) return away;
  // A program that went on after the finding goes on after an error of the edit, too.
  if (before.code == 0 && after.launches == before.launches && after.printed == before.printed)
    return "it went on as before, without what was refused";
  return {};
}

}  // namespace

Judgement judge(const Outcome& before, const Outcome& after) {
  if (after.clean()) {
    const std::string why = no_repair(before, after);
    if (!why.empty()) return {Result::failed, fmt::format("ran to its end, but {}", why)};
    return {Result::ran_to_end, "ran to its end"};
  }
  const std::string target = before.findings.empty() ? "" : before.findings.front().identity();
  const auto same = [&](const RecordedFinding& each) { return each.identity() == target; };
  if (std::any_of(after.findings.begin(), after.findings.end(), same))
    return {Result::failed, "the finding is still there"};

  // What the program met in the run before behind this finding is not new.
  const auto known = [&](const RecordedFinding& each) {
    return std::any_of(before.findings.begin(), before.findings.end(),
                       [&](const RecordedFinding& one) { return one.identity() == each.identity(); });
  };
  const bool more = after.all_launches() > before.all_launches();
  const bool as_far = after.all_launches() >= before.all_launches();
  if (!after.findings.empty()) {
    const RecordedFinding& next = after.findings.front();
    if (!as_far && !known(next)) return {Result::failed, fmt::format("refused before that: {}", next.place())};
    return {Result::further, fmt::format("next: {}", next.place())};
  }
  if (after.timed_out) return {more ? Result::further : Result::failed, "still running when its time was over"};
  // Without a finding, but not well: an exception of another kind, mostly one that the edit itself made.
  const bool elsewhere = after.all_launches() > before.all_launches() + before.all_launches() / 20;
  return {elsewhere ? Result::further : Result::failed,
          after.last_line.empty() ? fmt::format("exit code {}", after.code) : fmt::format("then: {}", after.last_line)};
}

}  // namespace devtrace::fix

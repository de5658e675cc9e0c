#include "fix/trials/judgement.h"

#include <algorithm>

#include "common/format.h"

namespace devtrace::fix {

const char* word(Result result) {
  return result == Result::ran_to_end ? "ran-to-end" : result == Result::further ? "further" : "failed";
}

Judgement judge(const Outcome& before, const Outcome& after) {
  if (after.clean()) return {Result::ran_to_end, "ran to its end"};
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

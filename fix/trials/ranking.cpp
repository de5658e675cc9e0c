#include "fix/trials/ranking.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

namespace devtrace::fix {
namespace {

// Those that stopped at the same place: a candidate that launches one kernel more on its way is no further.
std::string stop_of(const Tried& each) {
  if (each.judgement.result == Result::ran_to_end) return {};
  if (!each.outcome.findings.empty()) return each.outcome.findings.front().identity();
  return each.outcome.timed_out ? "time" : "error " + each.outcome.last_line;
}

// Steps of a half more: a few bytes of difference decide nothing.
int64_t step_of(uint64_t bytes) {
  return std::llround(std::log(static_cast<double>(bytes) + 4096) / std::log(1.5));
}

}  // namespace

bool loses_work(const Outcome& one, const Outcome& other) {
  for (const auto& [device, count] : other.launches) {
    const auto mine = one.launches.find(device);
    if (count >= 4 && (mine == one.launches.end() ? 0 : mine->second) * 2 < count) return true;
  }
  return false;
}

bool works_little(const Outcome& one, const Outcome& other) {
  return other.all_launches() >= 8 && one.all_launches() * 2 < other.all_launches();
}

Moved moved_by(const Candidate& edits, const Outcome& outcome) {
  Moved moved;
  for (const CopySite& site : outcome.copy_sites) {
    if (!edits.added.contains({site.file, site.line})) continue;
    moved.bytes += site.bytes;
    moved.a_step += site.bytes / site.copies;
  }
  return moved;
}

bool may_settle(const Candidate& candidate) {
  return !candidate.to_cpu && !candidate.at_use && !candidate.names_device;
}

bool settles(const Tried& one, const Outcome& before) {
  constexpr uint64_t kNothing = 64 << 10;
  return one.judgement.result == Result::ran_to_end && !one.prints_otherwise && may_settle(one.candidate) &&
         !loses_work(one.outcome, before) && moved_by(one.candidate, one.outcome).a_step <= kNothing;
}

bool cannot_win(const Candidate& candidate, const std::vector<Tried>& tried, const Outcome& before) {
  return std::any_of(tried.begin(), tried.end(), [&](const Tried& each) {
    if (each.judgement.result != Result::ran_to_end || each.candidate.to_cpu) return false;
    const bool in_words = !each.candidate.names_new_device && !loses_work(each.outcome, before);
    return candidate.to_cpu || (candidate.names_new_device && in_words);
  });
}

std::vector<size_t> ranked(std::vector<Tried>& tried, const Outcome& before) {
  std::vector<size_t> counting;
  std::map<std::string, uint64_t> reached;  // the most launches until each stop
  std::map<std::string, bool> with_error;
  for (size_t i = 0; i < tried.size(); ++i) {
    if (tried[i].judgement.result == Result::failed) continue;
    counting.push_back(i);
    uint64_t& most = reached[stop_of(tried[i])];
    most = std::max(most, tried[i].outcome.all_launches());
  }
  for (const size_t i : counting) {
    const Outcome& mine = tried[i].outcome;
    tried[i].moves_work = std::any_of(counting.begin(), counting.end(), [&](size_t other) {
      const Outcome& theirs = tried[other].outcome;
      return stop_of(tried[i]) == stop_of(tried[other]) && loses_work(mine, theirs) && !loses_work(theirs, mine);
    });
    tried[i].moves_work |= loses_work(mine, before);
  }

  const auto key = [&](size_t i) {
    const Tried& each = tried[i];
    const Outcome& outcome = each.outcome;
    const bool odd_end = each.judgement.result == Result::further && outcome.findings.empty() && !outcome.timed_out;
    return std::tuple(each.candidate.to_cpu, each.judgement.result != Result::ran_to_end, odd_end,
                      ~reached[stop_of(each)], each.prints_otherwise, each.moves_work, each.candidate.names_new_device,
                      step_of(outcome.bytes), each.candidate.at_use, each.candidate.changed,
                      each.candidate.names_device, i);
  };
  std::sort(counting.begin(), counting.end(), [&](size_t one, size_t other) { return key(one) < key(other); });
  return counting;
}

}  // namespace devtrace::fix

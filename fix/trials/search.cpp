#include "fix/trials/search.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <set>
#include <stdexcept>

namespace devtrace::fix {
namespace {

constexpr size_t kMostRounds = 16;
// Once one candidate has run to the end: so many are tried in all, for a better one.
constexpr size_t kEnough = 6;
// Once one has run to the end, in so many seconds: the others are given this many times as long, and some more.
constexpr double kPatience = 3, kMorePatience = 10;
// Ways that are kept for when the best one leads nowhere.
constexpr size_t kWays = 3;

class Search {
 public:
  Search(Runs& runs, const std::filesystem::path& edits, const std::filesystem::path& folder, const Limits& limits,
         const std::function<bool()>& interrupted, const std::function<void(const Progress&)>& progress)
      : runs_(runs), edits_(edits), folder_(folder), limits_(limits), interrupted_(interrupted), progress_(progress) {}

  SearchResult operator()() {
    const auto began = std::chrono::steady_clock::now();
    Run first(runs_, {});
    wait({&first});
    result_.before = result_.after = first.outcome();
    if (!result_.before.findings.empty() && !stopped()) follow();
    result_.runs = runs_.count;
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(result_);
  }

 private:
  // A program with edits, and the way to it.
  struct Way {
    std::vector<Round> rounds;
    Candidate edits;
    Outcome outcome;
  };

  bool stopped() {
    result_.interrupted |= interrupted_();
    result_.out_of_time |= std::chrono::steady_clock::now() >= deadline_;
    return result_.interrupted || result_.out_of_time;
  }

  // Until all have ended, or the search must; then the rest is ended, too.
  void wait(const std::vector<Run*>& all) {
    for (;;) {
      bool running = false;
      for (Run* each : all) running |= !each->ended();
      if (!running) return;
      if (stopped()) break;
      usleep(5'000);
    }
    for (Run* each : all) each->stop();
  }

  void follow() {
    std::vector<Way> open = {{{}, {}, result_.before}};
    std::set<std::string> seen;  // texts that were run
    while (!open.empty() && !stopped()) {
      Way way = std::move(open.back());
      open.pop_back();
      if (way.outcome.clean()) return take(way);
      if (way.rounds.size() >= kMostRounds || way.outcome.findings.empty()) continue;
      Round round{way.outcome.findings.front(), {}, {}};
      attempt(way, round, seen);
      const auto best = ranked(round.tried, way.outcome);
      if (best.empty()) {
        result_.given_up.push_back(std::move(round));
        continue;
      }
      std::vector<Way> next;
      for (size_t i = 0; i < best.size(); ++i) {
        if (i >= kWays && round.tried[best[i]].judgement.result != Result::ran_to_end) continue;
        Way one = way;
        one.rounds.push_back(round);
        one.rounds.back().chosen = best[i];
        one.edits = round.tried[best[i]].candidate;
        one.outcome = round.tried[best[i]].outcome;
        next.push_back(std::move(one));
      }
      take(next.front());
      if (result_.solved) return;  // the first of `next` is the best of this round
      for (auto each = next.rbegin(); each != next.rend(); ++each) open.push_back(std::move(*each));
    }
  }

  // The furthest way so far.
  void take(const Way& way) {
    const bool solved = way.outcome.clean();
    if (!solved && !result_.rounds.empty() && way.outcome.all_launches() <= result_.after.all_launches()) return;
    result_.rounds = way.rounds;
    result_.edits = way.edits;
    result_.after = way.outcome;
    result_.solved = solved;
  }

  void attempt(const Way& way, Round& round, std::set<std::string>& seen) {
    std::vector<Candidate> all;
    try {
      all = candidates(edits_, interpreter_of(round.finding.process), round.finding.finding, way.edits.texts, folder_,
                       runs_.workspace.make("question"));
    } catch (const std::runtime_error& error) {
      result_.trouble = error.what();
      return;
    }
    std::erase_if(all, [&](const Candidate& each) { return !seen.insert(each.patch).second; });
    if (all.size() > static_cast<size_t>(limits_.tries)) all.resize(static_cast<size_t>(limits_.tries));
    size_t started = 0;
    std::list<std::pair<size_t, Run>> running;
    const auto enough = [&] {
      const auto end = [](const Tried& each) {
        return each.judgement.result == Result::ran_to_end && !each.candidate.to_cpu;
      };
      const bool rest = started < all.size() && all[started].fallback;
      return (rest || round.tried.size() + running.size() >= kEnough) &&
             std::any_of(round.tried.begin(), round.tried.end(), end);
    };
    for (;;) {
      const bool stop = stopped();
      while (!stop && !enough() && started < all.size() && running.size() < static_cast<size_t>(limits_.jobs)) {
        running.emplace_back(std::piecewise_construct, std::forward_as_tuple(started),
                             std::forward_as_tuple(runs_, all[started].texts));
        ++started;
        tell(round, way, all.size(), nullptr);
      }
      if (running.empty()) break;
      for (auto each = running.begin(); each != running.end();) {
        if (stop || each->second.seconds() > patience(round)) each->second.stop();
        if (!each->second.ended()) {
          ++each;
          continue;
        }
        Tried one{all[each->first], each->second.outcome(), {}, false, each->first};
        one.judgement = stop ? Judgement{Result::failed, "stopped"} : judge(way.outcome, one.outcome);
        each = running.erase(each);
        round.tried.push_back(std::move(one));
        tell(round, way, all.size(), &round.tried.back());
      }
      usleep(5'000);
    }
    std::sort(round.tried.begin(), round.tried.end(),
              [](const Tried& one, const Tried& other) { return one.order < other.order; });
  }

  // Seconds after which a run is not waited for any more.
  double patience(const Round& round) const {
    double limit = runs_.timeout;
    for (const Tried& each : round.tried)
      if (each.judgement.result == Result::ran_to_end)
        limit = std::min(limit, each.outcome.seconds * kPatience + kMorePatience);
    return limit;
  }

  void tell(const Round& round, const Way& way, size_t all, const Tried* last) {
    progress_({&round, way.rounds.size() + 1, round.tried.size(), all, last});
  }

  Runs& runs_;
  const std::filesystem::path &edits_, &folder_;
  const Limits& limits_;
  const std::function<bool()>& interrupted_;
  const std::function<void(const Progress&)>& progress_;
  const std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(limits_.budget));
  SearchResult result_;
};

}  // namespace

SearchResult search(Runs& runs, const std::filesystem::path& edits, const std::filesystem::path& folder,
                    const Limits& limits, const std::function<bool()>& interrupted,
                    const std::function<void(const Progress&)>& progress) {
  return Search(runs, edits, folder, limits, interrupted, progress)();
}

}  // namespace devtrace::fix

#include "fix/trials/search.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <set>
#include <stdexcept>

#include "fix/trials/pruning.h"
#include "process/supervise.h"

namespace devtrace::fix {
namespace {

constexpr size_t kMostRounds = 16;
// Once one candidate has run to the end: so many are tried in all, for a better one.
constexpr size_t kEnough = 6;
// Once one has got to another finding: so many, then that way is followed, and the rest waits until it has led nowhere.
constexpr size_t kEnoughForNow = 12;
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
    Run first(runs_, {});
    const bool beside = limits_.jobs > 1;  // else one run at a time
    if (runs_.with_values && beside) reference_run_.emplace(runs_, Texts(), true);
    wait({&first});
    result_.before = result_.after = first.outcome();
    if (!result_.before.findings.empty() && !stopped()) {
      if (runs_.with_values && !beside) reference_run_.emplace(runs_, Texts(), true);
      follow();
    }
    if (reference_run_) end_reference();
    if (result_.solved) leave_out_the_needless();
    if (result_.solved && reference_) result_.prints_as_reference = !prints_otherwise(result_.after);
    result_.runs = runs_.count;
    return std::move(result_);
  }

 private:
  // Candidates for one finding that had no run yet, in their order.
  struct Waiting {
    std::deque<std::pair<size_t, Candidate>> candidates;
    Round round;                // with what was tried before them
    std::set<size_t> followed;  // orders in the round: ways that led nowhere
  };

  // A program with edits, and the way to it.
  struct Way {
    std::vector<Round> rounds;
    Candidate edits;
    Outcome outcome;
    std::optional<Waiting> waiting;
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
      reference_runs();
      if (!running || stopped()) break;
      usleep(5'000);
    }
    for (Run* each : all) each->stop();
    kill_leftovers();
  }

  // Who left a run's session with another environment may be any run's, while there are several.
  void kill_leftovers() {
    if (!reference_run_) process::kill_descendants(kGuard);
  }

  // Is it still under way? It shows something when it went on behind a finding, to a good end.
  bool reference_runs() {
    if (!reference_run_ || !reference_run_->ended()) return reference_run_.has_value();
    Outcome outcome = reference_run_->outcome();
    reference_run_.reset();
    if (limits_.jobs == 1) kill_leftovers();
    if (outcome.code == 0 && !outcome.timed_out && !outcome.findings.empty()) reference_ = std::move(outcome);
    return false;
  }

  // It takes as long as a program that is repaired.
  void end_reference() {
    const double limit = result_.solved ? result_.after.seconds * kPatience + kMorePatience : 0;
    while (reference_runs() && !stopped() && reference_run_->seconds() < limit) usleep(5'000);
    if (reference_run_) reference_run_->stop();
    reference_runs();
    kill_leftovers();
  }

  bool prints_otherwise(const Outcome& outcome) const {
    return reference_ && outcome.clean() && outcome.printed != reference_->printed;
  }

  void follow() {
    std::vector<Way> open = {{{}, {}, result_.before, {}}};
    while (!open.empty() && !stopped()) {
      Way way = std::move(open.back());
      open.pop_back();
      if (way.outcome.clean()) return take(way);
      if (way.rounds.size() >= kMostRounds || way.outcome.findings.empty()) continue;
      Waiting waiting = way.waiting ? *std::move(way.waiting) : asked(way);
      way.waiting.reset();
      attempt(way, waiting);
      Round& round = waiting.round;
      auto best = ranked(round.tried, way.outcome);
      std::erase_if(best, [&](size_t i) { return !waiting.followed.insert(round.tried[i].order).second; });
      if (best.empty() && waiting.candidates.empty())
        result_.given_up.push_back(std::move(round));
      else if (!waiting.candidates.empty())
        open.push_back({way.rounds, way.edits, way.outcome, waiting});
      if (best.empty()) continue;
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

  // Each hunk of the patch is left out in turn: without what was not needed in the end, the patch is as good.
  void leave_out_the_needless() {
    for (size_t kept = 0;;) {
      std::vector<Candidate> smaller;
      try {
        smaller = without_a_hunk(edits_, result_.rounds.back().finding.interpreter, result_.edits, folder_,
                                 runs_.workspace.make("question"));
      } catch (const std::runtime_error&) {
        return;  // the whole patch is verified
      }
      if (smaller.size() < 2) return;
      while (kept < smaller.size() && !leave_out(smaller[kept])) ++kept;
      if (kept >= smaller.size()) return;
    }
  }

  bool leave_out(const Candidate& smaller) {
    if (stopped()) return false;
    Run run(runs_, smaller.texts);
    wait({&run});
    const Outcome outcome = run.outcome();
    if (stopped() || judge(result_.before, outcome).result != Result::ran_to_end || loses_work(outcome, result_.after))
      return false;
    for (Round& round : result_.rounds)
      if (round.chosen && round.tried[*round.chosen].candidate.code == smaller.code) round.chosen.reset();
    result_.edits = smaller;
    result_.after = outcome;
    return true;
  }

  Waiting asked(const Way& way) {
    Waiting waiting{{}, {way.outcome.findings.front(), {}, {}}, {}};
    const RecordedFinding& finding = waiting.round.finding;
    std::vector<Candidate> all;
    try {
      all = candidates(edits_, finding.interpreter, finding.finding, way.edits, folder_,
                       runs_.workspace.make("question"));
    } catch (const std::runtime_error& error) {
      result_.trouble = error.what();
      return waiting;
    }
    for (Candidate& each : all) {
      if (waiting.candidates.size() == static_cast<size_t>(limits_.tries)) break;
      if (!pruning_.needless(finding, each) && seen_.insert(each.patch).second)
        waiting.candidates.emplace_back(waiting.candidates.size(), std::move(each));
    }
    return waiting;
  }

  // Runs candidates until that is enough; the rest stays in `waiting`.
  void attempt(const Way& way, Waiting& waiting) {
    Round& round = waiting.round;
    auto& left = waiting.candidates;
    const size_t before = round.tried.size(), all = before + left.size();
    std::deque<std::pair<size_t, Candidate>> later;
    struct Running {
      size_t order;
      Candidate candidate;
      Run run;
    };
    std::list<Running> running;
    std::optional<size_t> settled;  // the order of an edit that no less likely one can surpass
    // What the runs so far say of the next candidates.
    const auto skip = [&] {
      while (!left.empty()) {
        const Candidate& next = left.front().second;
        if ((before == 0 && Pruning::said_already(round.tried, next)) || cannot_win(next, round.tried, way.outcome))
          later.push_back(std::move(left.front()));
        else if (!pruning_.needless(round.finding, next))
          break;
        left.pop_front();
      }
    };
    const auto enough = [&] {
      const auto end = [](const Tried& each) {
        return each.judgement.result == Result::ran_to_end && !each.candidate.to_cpu;
      };
      const auto further = [](const Tried& each) { return each.judgement.result == Result::further; };
      const auto begin = round.tried.begin() + static_cast<std::ptrdiff_t>(before);
      const bool rest = !left.empty() && left.front().second.fallback;
      const bool only_now = rest && !round.tried.empty() && !round.tried.back().candidate.fallback;
      const size_t tried = round.tried.size() + running.size();
      if (settled) return true;
      if (std::any_of(round.tried.begin(), round.tried.end(), end)) return rest || tried >= kEnough;
      return (only_now || tried - before >= kEnoughForNow) && std::any_of(begin, round.tried.end(), further);
    };
    for (;;) {
      const bool stop = stopped();
      const size_t jobs = static_cast<size_t>(limits_.jobs) - (reference_runs() ? 1 : 0);
      for (skip(); !stop && !enough() && !left.empty() && running.size() < jobs; skip()) {
        auto [order, candidate] = std::move(left.front());
        left.pop_front();
        Run run(runs_, candidate.texts);
        running.push_back({order, std::move(candidate), std::move(run)});
        report_progress(round, way, all, nullptr);
      }
      if (running.empty() && (stop || enough() || left.empty() || jobs > 0)) break;
      for (auto each = running.begin(); each != running.end();) {
        if (settled && each->order > *settled) {
          each->run.stop();
          each = running.erase(each);
          continue;
        }
        if (stop || each->run.seconds() > patience(round)) each->run.stop();
        if (!each->run.ended()) {
          ++each;
          continue;
        }
        Tried one{std::move(each->candidate), each->run.outcome(), {}, false, false, each->order};
        one.prints_otherwise = prints_otherwise(one.outcome);
        one.judgement = stop ? Judgement{Result::failed, "stopped"} : judge(way.outcome, one.outcome);
        each = running.erase(each);
        if (!stop) pruning_.learn(round.finding, one);
        if (settles(one, way.outcome)) settled = std::min(settled.value_or(one.order), one.order);
        round.tried.push_back(std::move(one));
        report_progress(round, way, all, &round.tried.back());
      }
      if (running.empty()) kill_leftovers();
      usleep(5'000);
    }
    for (auto& each : later) left.push_back(std::move(each));
    for (Tried& each : round.tried) each.prints_otherwise = prints_otherwise(each.outcome);
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

  void report_progress(const Round& round, const Way& way, size_t all, const Tried* last) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    progress_({&round, way.rounds.size() + 1, round.tried.size(), all, seconds, last});
  }

  Runs& runs_;
  const std::filesystem::path &edits_, &folder_;
  const Limits& limits_;
  const std::function<bool()>& interrupted_;
  const std::function<void(const Progress&)>& progress_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const std::chrono::steady_clock::time_point deadline_ =
      began_ +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(limits_.budget));
  SearchResult result_;
  std::optional<Run> reference_run_;  // while it is under way
  std::optional<Outcome> reference_;  // where it shows what the program is meant to print
  Pruning pruning_;
  std::set<std::string> seen_;  // patches that were run
};

}  // namespace

SearchResult search(Runs& runs, const std::filesystem::path& edits, const std::filesystem::path& folder,
                    const Limits& limits, const std::function<bool()>& interrupted,
                    const std::function<void(const Progress&)>& progress) {
  return Search(runs, edits, folder, limits, interrupted, progress)();
}

}  // namespace devtrace::fix

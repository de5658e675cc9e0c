#include "fix/trials/search.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

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
// Seconds of a run beside which what imports take is little.
constexpr double kLongRun = 30;

// Seconds for all runs, where the user says nothing: this many times the first run's, between these.
constexpr double kRunsLong = 40, kLeastBudget = 120, kMostBudget = 900;

std::chrono::steady_clock::duration seconds_of(double count) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(count));
}

class Search {
 public:
  Search(Runs& runs, const std::filesystem::path& edits, const std::filesystem::path& folder, const Limits& limits,
         const std::function<bool()>& interrupted, const std::function<void(const Progress&)>& progress)
      : runs_(runs), edits_(edits), folder_(folder), limits_(limits), interrupted_(interrupted), progress_(progress) {}

  SearchResult operator()() {
    std::unique_ptr<Server> server = start_server(runs_);
    Run first(runs_, {});
    if (jobs_ > 1 && !server) start_reference();
    wait({&first});
    result_.before = result_.after = first.outcome();
    set_budget(first.seconds());
    // Ranks take a core each.
    if (limits_.by_cores) jobs_ = std::max(1, jobs_ / std::max(1, result_.before.processes));
    if (!result_.before.findings.empty() && !stopped()) {
      use_forks(server);
      solve();
      if (!confirmed()) {
        begin_again();
        solve();
      }
    } else if (reference_run_) {
      end_reference();
    }
    as_it_is_.reset();
    runs_.server = nullptr;
    result_.runs = runs_.count;
    result_.budget = budget_;
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

  // A search that has found nothing in so many times what the program takes mostly finds nothing.
  void set_budget(double of_first_run) {
    if (limits_.budget > 0) return;
    budget_ = std::clamp(of_first_run * kRunsLong, kLeastBudget, kMostBudget);
    deadline_ = began_ + seconds_of(budget_);
  }

  void solve() {
    if (!reference_began_ && !as_it_is_) start_reference();
    follow();
    check_forks();
    if (reference_run_) end_reference();
    if (result_.solved) leave_out_the_needless();
    if (result_.solved && may_compare(result_.after)) result_.prints_as_reference = !prints_otherwise(result_.after);
  }

  // Without values it would show nothing.
  void start_reference() {
    if (!runs_.with_values || !runs_.build.empty()) return;
    reference_run_.emplace(runs_, Texts(), Refused::computed);
    reference_began_ = true;
  }

  // Runs are forks from here on where the program as it is shows in one what it has shown from a fresh start.
  void use_forks(const std::unique_ptr<Server>& server) {
    if (!server || result_.before.seconds > kLongRun) return;
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(result_.before.seconds * kPatience + kMorePatience);
    while (!server->ready() && !stopped() && std::chrono::steady_clock::now() < until) usleep(5'000);
    if (server->ready() != true) return;
    runs_.server = server.get();
    as_it_is_.emplace(runs_, Texts());
  }

  // Waits for what the program as it is shows in a fork. Not what it shows from a fresh start: no forks.
  void check_forks() {
    if (!as_it_is_) return;
    while (!as_it_is_->ended() && !stopped()) usleep(5'000);
    as_it_is_->stop();
    const Outcome outcome = as_it_is_->outcome();
    as_it_is_.reset();
    if (jobs_ == 1) kill_leftovers();
    prints_alike_ = outcome.printed == result_.before.printed;
    if (outcome.fresh || !alike(outcome, result_.before)) runs_.server = nullptr;
    if (!stopped()) start_reference();
  }

  static bool alike(const Outcome& one, const Outcome& other) {
    const auto same = [](const RecordedFinding& mine, const RecordedFinding& theirs) {
      return mine.identity() == theirs.identity();
    };
    // What goes on behind a finding is told from a repair by what it prints.
    const bool prints = one.code != 0 || one.printed == other.printed;
    return one.code == other.code && one.timed_out == other.timed_out && one.launches == other.launches && prints &&
           std::equal(one.findings.begin(), one.findings.end(), other.findings.begin(), other.findings.end(), same);
  }

  // Without forks.
  void begin_again() {
    runs_.server = nullptr;
    reference_.reset();
    reference_began_ = false;
    Outcome before = std::move(result_.before);
    result_ = {};
    result_.before = result_.after = std::move(before);
    pruning_ = {};
    seen_.clear();
  }

  Run fresh_run(const Texts& texts, Refused refused = Refused::raises) {
    Server* const forks = std::exchange(runs_.server, nullptr);
    Run run(runs_, texts, refused);
    runs_.server = forks;
    return run;
  }

  // Whether a fresh start shows what forks have shown: that the patch repairs the program. Without one, that it comes
  // to no end where operands of several devices are computed.
  bool confirmed() {
    if (!runs_.server || (result_.solved && result_.after.fresh)) return true;
    if (!result_.solved && (reference_ || !runs_.with_values)) return true;
    Run run = result_.solved ? fresh_run(result_.edits.texts) : fresh_run({}, Refused::computed);
    wait({&run});
    Outcome outcome = run.outcome();
    if (stopped()) {
      result_.solved = false;
      return true;
    }
    if (!result_.solved) return !is_reference(outcome);
    if (judge(result_.before, outcome).result != Result::ran_to_end) return false;
    result_.after = std::move(outcome);
    return true;
  }

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
    if (!reference_run_ && !as_it_is_) process::kill_descendants(kGuard);
  }

  // Is it still under way? It shows something when it went on behind a finding, to a good end.
  bool reference_runs() {
    if (!reference_run_ || !reference_run_->ended()) return reference_run_.has_value();
    Outcome outcome = reference_run_->outcome();
    reference_run_.reset();
    if (jobs_ == 1) kill_leftovers();
    if (is_reference(outcome)) reference_ = std::move(outcome);
    return false;
  }

  static bool is_reference(const Outcome& outcome) {
    return outcome.code == 0 && !outcome.timed_out && !outcome.findings.empty();
  }

  // So long a repaired program may run, beside one that has ended. A fork has left out what a fresh start takes.
  double limit_beside(const Outcome& ended) const {
    return ended.seconds * kPatience + kMorePatience + (ended.fresh ? 0 : result_.before.seconds);
  }

  // It takes as long as a program that is repaired.
  void end_reference() {
    const double limit = result_.solved ? limit_beside(result_.after) : 0;
    while (reference_runs() && !stopped() && reference_run_->seconds() < limit) usleep(5'000);
    if (reference_run_) reference_run_->stop();
    reference_runs();
    kill_leftovers();
  }

  // What imports print stands in what a fresh start prints alone.
  bool may_compare(const Outcome& outcome) const {
    return reference_ && (prints_alike_ || outcome.fresh == reference_->fresh);
  }

  bool prints_otherwise(const Outcome& outcome) const {
    return may_compare(outcome) && outcome.clean() && outcome.printed != reference_->printed;
  }

  // What the reference run says of an edit, once it has ended.
  void compare(Tried& one) const {
    one.prints_otherwise = prints_otherwise(one.outcome);
    if (one.judgement.result == Result::ran_to_end && reference_ && works_little(one.outcome, *reference_))
      one.judgement = {Result::failed, "ran to its end, but most of the work went to the CPU"};
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
    // What moves lines is one change: half of it loses them.
    if (std::ranges::any_of(result_.rounds, [](const Round& each) {
          return each.chosen && each.tried[*each.chosen].candidate.kind == "collective-of-all";
        }))
      return;
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
    if (stopped() || smaller.patch.empty()) return false;  // the program as it is
    Run run(runs_, smaller.texts);
    wait({&run});
    const Outcome outcome = run.outcome();
    if (stopped() || judge(result_.before, outcome).result != Result::ran_to_end ||
        loses_work(outcome, result_.after) || (prints_otherwise(outcome) && !prints_otherwise(result_.after)))
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
    // The likeliest edit's own run from a fresh start is the last one, where it is the one that is taken.
    const bool at_once = jobs_ > 1 && way.rounds.empty() && before == 0;
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
    // It takes much longer than a fork, and may be the only run that is needed.
    const auto waited_for = [&] {
      return at_once && runs_.server && !running.empty() && running.front().order == 0 &&
             may_settle(running.front().candidate);
    };
    for (;;) {
      const bool stop = stopped();
      const auto jobs = [&] { return static_cast<size_t>(jobs_) - (reference_runs() ? 1 : 0); };
      for (skip(); !stop && !enough() && !left.empty() && running.size() < jobs(); skip()) {
        const bool fresh = at_once && left.front().first == 0;
        if (!fresh && as_it_is_) {
          check_forks();
          continue;
        }
        if (waited_for()) break;
        auto [order, candidate] = std::move(left.front());
        left.pop_front();
        Run run = fresh ? fresh_run(candidate.texts) : Run(runs_, candidate.texts);
        running.push_back({order, std::move(candidate), std::move(run)});
        report_progress(round, way, all, nullptr);
      }
      if (running.empty() && (stop || enough() || left.empty() || jobs() > 0)) break;
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
        one.judgement = stop ? Judgement{Result::failed, "stopped"} : judge(way.outcome, one.outcome);
        compare(one);
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
    for (Tried& each : round.tried) compare(each);
    std::sort(round.tried.begin(), round.tried.end(),
              [](const Tried& one, const Tried& other) { return one.order < other.order; });
  }

  // Seconds after which a run is not waited for any more.
  double patience(const Round& round) const {
    double limit = runs_.timeout;
    for (const Tried& each : round.tried)
      if (each.judgement.result == Result::ran_to_end) limit = std::min(limit, limit_beside(each.outcome));
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
  int jobs_ = limits_.jobs;
  double budget_ = limits_.budget > 0 ? limits_.budget : kMostBudget;
  std::chrono::steady_clock::time_point deadline_ = began_ + seconds_of(budget_);
  SearchResult result_;
  std::optional<Run> as_it_is_;       // the program without edits in a fork, while it is under way
  bool prints_alike_ = true;          // there, and from a fresh start
  std::optional<Run> reference_run_;  // while it is under way
  bool reference_began_ = false;
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

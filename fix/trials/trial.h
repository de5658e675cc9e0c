// One candidate, run.
#pragma once

#include <memory>
#include <optional>

#include "common/rank_table.h"
#include "fix/trials/candidates.h"
#include "fix/trials/child.h"
#include "fix/trials/judgement.h"
#include "fix/trials/server.h"
#include "fix/trials/workspace.h"

namespace devtrace::fix {

struct Tried {
  Candidate candidate;
  Outcome outcome;
  Judgement judgement;
  bool moves_work = false;        // see ranking.h
  bool prints_otherwise = false;  // than the reference run, of a program that ran to its end
  size_t order = 0;               // among the candidates: the likeliest first
};

// Runs in the workspace: what every run of one search has in common.
struct Runs {
  const Workspace& workspace;
  ProgramToRun program;           // with the environment of its rehearsal
  std::filesystem::path overlay;  // overlay.so
  double timeout = 0;             // seconds for one run
  bool with_values = true;        // false: what operators give is not computed (--no-values)
  int count = 0;                  // runs so far
  Server* server = nullptr;       // forks for runs that need no fresh start
  // Of a program that is compiled: the line of the shell that builds it, in a copy of this folder. Empty: nothing is.
  std::string build = {};
  std::filesystem::path tree = {};
};

// Starts what forks for runs, beside this process; null where it is no program for that.
std::unique_ptr<Server> start_server(const Runs& runs);

// What a run computes where PyTorch refuses: a reference goes on, as if all operands lay on one device.
enum class Refused { raises, computed };

class Run {
 public:
  // Starts the program with these texts in the place of its files; of a compiled one first what builds it.
  Run(Runs& runs, const Texts& texts, Refused refused = Refused::raises);
  // Whether it has ended. Past its time limit, and where its ranks come to no end, it is ended here.
  bool ended();
  // Once it has ended.
  Outcome outcome() const;
  // Ends it: for its outcome, its time is over.
  void stop();
  double seconds() const { return child_->seconds(); }

 private:
  void build(const Texts& texts);
  bool is_at_dead_end();
  std::filesystem::path copy_of_tree() const;

  const Runs& runs_;
  std::filesystem::path folder_;
  double timeout_, next_look_ = 0;  // seconds
  std::optional<double> dead_end_;  // when it was met
  bool timed_out_ = false, fresh_ = true;
  std::optional<ProgramToRun> built_;        // runs once its build has come to a good end
  std::unique_ptr<OfferedRankTable> ranks_;  // of a fresh run: ranks tell each other, as under `devtrace run`
  std::optional<Child> child_;
};

}  // namespace devtrace::fix

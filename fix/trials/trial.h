// One candidate, run.
#pragma once

#include <optional>

#include "fix/trials/candidates.h"
#include "fix/trials/child.h"
#include "fix/trials/judgement.h"
#include "fix/trials/workspace.h"

namespace devtrace::fix {

struct Tried {
  Candidate candidate;
  Outcome outcome;
  Judgement judgement;
  bool moves_work = false;  // see ranking.h
  size_t order = 0;         // among the candidates: the likeliest first
};

// Runs in the workspace: what every run of one search has in common.
struct Runs {
  const Workspace& workspace;
  ProgramToRun program;           // with the environment of its rehearsal
  std::filesystem::path overlay;  // overlay.so
  double timeout = 0;             // seconds for one run
  int count = 0;                  // runs so far
};

class Run {
 public:
  // Starts the program with these texts in the place of its files.
  Run(Runs& runs, const Texts& texts);
  // Whether it has ended; past its time limit it is ended here.
  bool ended();
  // Once it has ended.
  Outcome outcome() const;
  // Ends it: for its outcome, its time is over.
  void stop();
  double seconds() const { return child_->seconds(); }

 private:
  std::filesystem::path folder_;
  double timeout_;
  bool timed_out_ = false;
  std::optional<Child> child_;
};

}  // namespace devtrace::fix

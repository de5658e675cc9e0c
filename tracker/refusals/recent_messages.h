// One refusal is raised several times. PyTorch's C++ error becomes a Python exception, a worker's exception is raised
// again in the thread that waits for it, a compiler wraps it in one of its own.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tracker/interface/event_types.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::refusals {

// How an error stands to those that were looked at before. `rephrased`: a function that raises while it handles such an
// error says the same in other words, unless the error is of C code that it called.
enum class Repetition { none, same, rephrased };

class RecentMessages {
 public:
  // An error of this text has been looked at. `in_python`: a Python exception. `stack`: where.
  void add(std::string_view message, bool in_python, stacks::StackId stack);
  // … and is a finding.
  void found(std::string_view message);

  // Whether an error that is being raised only says again what was looked at. More than an earlier text always does.
  // The very text does where a C++ error becomes a Python exception, and where one Python exception is raised while
  // another is handled.
  enum class How { thrown, in_python, while_handling };
  bool repeats(std::string_view message, How how) const;
  // Where the error of that text, which is being handled, was raised; 0: none such was a finding. A function of that
  // stack that now raises an error of its own says the same in other words.
  stacks::StackId raised_at(std::string_view handled) const;

 private:
  struct Entry {
    std::string text;  // its first line
    bool in_python = false;
    stacks::StackId stack = 0;
    bool found = false;
  };
  std::array<Entry, 32> entries_;
  size_t next_ = 0;
};

// Those of this process, under a lock.
namespace recent_messages {

// What is new is kept for what may repeat it; PyTorch's own checks repeat nothing.
Repetition repetition_of(const events::Refused& refusal);
// It is a finding.
void was_found(const events::Refused& refusal);

void before_fork();
void after_fork(bool child);

}  // namespace recent_messages
}  // namespace devtrace::refusals

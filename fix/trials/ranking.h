// Which of several edits that all count is the best.
#pragma once

#include <vector>

#include "fix/trials/trial.h"

namespace devtrace::fix {

// Indexes into `tried` of those that count, the best first. What takes nothing to the CPU; of these what ran to its end
// before what got further, and the further the better. Then what prints as the reference run, leaves the work where it
// was, names no device that the program does not name there, moves the fewest bytes. Then where the operand comes from
// and not where it is used, changes the fewest lines, names no device at all, and was the likeliest. Sets `moves_work`
// of each: a device has less than half of the launches that it had in the run before. The same holds beside another
// edit that got as far and itself takes nothing away from any device.
std::vector<size_t> ranked(std::vector<Tried>& tried, const Outcome& before);

struct Moved {
  uint64_t bytes = 0, a_step = 0;
};

// What the lines that the patch adds have moved: in all, and each time they ran.
Moved moved_by(const Candidate& edits, const Outcome& outcome);

// No other edit can be better in what counts. It ran to its end with the work where it was, and printed what the
// reference did. It changes what decided on the device, in words. Its copies take no longer than to start them (64
// KiB).
bool settles(const Tried& one, const Outcome& before);

// It may, as far as that is known before its run.
bool may_settle(const Candidate& candidate);

// A device has less than half of the launches that it has in the other run.
bool loses_work(const Outcome& one, const Outcome& other);

// All devices together have less than half of the launches that they have in the other run: the CPU does the rest.
bool works_little(const Outcome& one, const Outcome& other);

// Whatever its run showed, one that has ended is better: it takes nothing to the CPU, or says the device in words.
bool cannot_win(const Candidate& candidate, const std::vector<Tried>& tried, const Outcome& before);

}  // namespace devtrace::fix

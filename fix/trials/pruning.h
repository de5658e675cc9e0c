// Which candidates need no run: those of which the runs before say what would come of them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fix/trials/trial.h"

namespace devtrace::fix {

class Pruning {
 public:
  // After a candidate's run for that finding.
  void learn(const RecordedFinding& finding, const Tried& tried);
  // Its run would show what another has shown: the same edit left this finding as it was, on another way to it. So it
  // is where it asks an object for its device, or moves one, that cannot be asked or moved.
  bool needless(const RecordedFinding& finding, const Candidate& candidate) const;
  // The same edit, with other words for the device, counts already in this round: it can be no better.
  static bool said_already(const std::vector<Tried>& round, const Candidate& candidate);

 private:
  std::set<std::string> useless_, unknown_devices_, immovable_;
};

}  // namespace devtrace::fix

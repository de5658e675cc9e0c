// Who may reach another device's memory: those whose job it is, and programs that say they do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracker/findings/policy_rule.h"
#include "tracker/interface/device.h"

namespace devtrace::policy {

enum class Verdict {
  finding,  // nobody said that this is meant
  note,     // it is meant: told once, and no fault
  excused,  // it is somebody's job: not told
};

struct Decision {
  Verdict verdict = Verdict::finding;
  std::string reason;  // of a note, and of what is excused
};

// Hot enough for every kernel that is met for the first time: whether a kernel of this name (mangled or not) is excused
// whoever launches it.
bool may_reach_other_devices(std::string_view kernel);

// A kernel that runs on `device` was given memory of `owners` (of its own, too). Slow: it looks at the whole stack.
Decision on_remote_access(const RemoteAccess& access, Device device, const std::vector<Device>& owners);

}  // namespace devtrace::policy

// Who may reach another device's memory: those whose job it is, and programs that say they do.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/glob.h"
#include "finding/finding.h"
#include "tracker/interface/device.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::findings {

// Of whom it is asked.
struct RemoteAccess {
  std::string_view kernel = {};     // as its image has it (mangled)
  std::string_view demangled = {};  // the same
  std::span<const stacks::NativeFrame> native = {};
};

// Whom a rule speaks of. An empty pattern says nothing; all others must match.
struct Matcher {
  std::string_view kernel = {};    // its name, mangled or not
  std::string_view library = {};   // file name of the library that launches: of the first frame outside CUDA's own
  std::string_view function = {};  // of any native frame up to the Python code that asked for it, mangled or not

  bool matches(const RemoteAccess& access) const;
  bool by_kernel_only() const { return library.empty() && function.empty(); }
};

}  // namespace devtrace::findings

namespace devtrace::findings::policy {

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

// A note says why it is none. False: excused, and no finding.
bool apply(const Decision& decision, finding::Finding& finding);

}  // namespace devtrace::findings::policy

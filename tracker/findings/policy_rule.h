// Whom a rule speaks of: a kernel, the library that launches it, a function on the way there. The policy's table is
// made of these.
#pragma once

#include <span>
#include <string_view>

#include "common/glob.h"
#include "tracker/stacks/stacks.h"

namespace devtrace {

// Of whom it is asked.
struct RemoteAccess {
  std::string_view kernel = {};     // as its image has it (mangled)
  std::string_view demangled = {};  // the same
  std::span<const stacks::NativeFrame> native = {};
};

// An empty pattern says nothing; all others must match.
struct Matcher {
  std::string_view kernel = {};    // its name, mangled or not
  std::string_view library = {};   // file name of the library that launches: of the first frame outside CUDA's own
  std::string_view function = {};  // of any native frame up to the Python code that asked for it, mangled or not

  bool matches(const RemoteAccess& access) const;
  bool by_kernel_only() const { return library.empty() && function.empty(); }
};

}  // namespace devtrace

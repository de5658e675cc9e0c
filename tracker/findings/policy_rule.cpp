#include "tracker/findings/policy_rule.h"

#include <algorithm>

#include "tracker/log/record_fields.h"

namespace devtrace {
namespace {

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// A launch function of the runtime calls the driver's: neither is who launches.
bool is_cuda(const stacks::NativeFrame& frame) {
  const std::string_view file = file_name(frame.module);
  return file.starts_with("libcudart.so") || file.starts_with("libcuda.so") || file.starts_with("libdevtrace.so");
}

}  // namespace

bool Matcher::matches(const RemoteAccess& access) const {
  if (!kernel.empty() && !pattern_matches(kernel, access.kernel) && !pattern_matches(kernel, access.demangled))
    return false;
  if (!library.empty()) {
    const auto launcher = std::find_if_not(access.native.begin(), access.native.end(), is_cuda);
    if (launcher == access.native.end() || !pattern_matches(library, file_name(launcher->module))) return false;
  }
  if (function.empty()) return true;
  for (const stacks::NativeFrame& frame : access.native) {
    if (record_parts::evaluates_python(frame)) return false;
    if (pattern_matches(function, frame.function) || pattern_matches(function, frame.mangled)) return true;
  }
  return false;
}

}  // namespace devtrace

#include "tracker/matcher.h"

#include <algorithm>

#include "tracker/record_parts.h"

namespace devtrace {
namespace {

// A glob of `*` alone, bound to both ends. Linear: only the last star is ever tried again.
bool glob(std::string_view pattern, std::string_view text) {
  size_t at = 0, in = 0, star = pattern.npos, resume = 0;
  while (in < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in;
    } else if (at < pattern.size() && pattern[at] == text[in]) {
      ++at;
      ++in;
    } else if (star != pattern.npos) {
      at = star + 1;
      in = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// A launch function of the runtime calls the driver's: neither is who launches.
bool is_cuda(const stacks::NativeFrame& frame) {
  const std::string_view file = file_name(frame.module);
  return file.starts_with("libcudart.so") || file.starts_with("libcuda.so") || file.starts_with("libdevtrace.so");
}

}  // namespace

bool pattern_matches(std::string_view pattern, std::string_view text) {
  const bool from_start = pattern.starts_with('^'), to_end = pattern.ends_with('$');
  if (from_start) pattern.remove_prefix(1);
  if (to_end) pattern.remove_suffix(1);
  std::string whole;
  if (!from_start) whole += '*';
  whole += pattern;
  if (!to_end) whole += '*';
  return glob(whole, text);
}

bool Matcher::matches(const Deed& deed) const {
  if (!kernel.empty() && !pattern_matches(kernel, deed.kernel) && !pattern_matches(kernel, deed.demangled))
    return false;
  if (!library.empty()) {
    const auto launcher = std::find_if_not(deed.native.begin(), deed.native.end(), is_cuda);
    if (launcher == deed.native.end() || !pattern_matches(library, file_name(launcher->module))) return false;
  }
  if (function.empty()) return true;
  for (const stacks::NativeFrame& frame : deed.native) {
    if (record_parts::evaluates_python(frame)) return false;
    if (pattern_matches(function, frame.function) || pattern_matches(function, frame.mangled)) return true;
  }
  return false;
}

}  // namespace devtrace

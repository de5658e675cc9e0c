// Names of kernels as people read them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace devtrace {

// `void at::native::vectorized_elementwise_kernel<4, …>(int, …)` → at::native::vectorized_elementwise_kernel
inline std::string short_kernel_name(std::string_view demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t depth = 0;
  size_t end = demangled.size();
  for (size_t i = 0; i < demangled.size(); ++i) {
    if (demangled[i] == '<' || demangled[i] == '(') {
      if (depth == 0 && demangled.substr(i).starts_with(kAnonymous)) {  // belongs to the name
        i += kAnonymous.size() - 1;
        continue;
      }
      if (depth++ == 0) end = std::min(end, i);
    } else if (demangled[i] == '>' || demangled[i] == ')') {
      --depth;
    } else if (demangled[i] == ' ' && depth == 0 && end == demangled.size()) {
      demangled.remove_prefix(i + 1);  // the type that a template's function returns
      return short_kernel_name(demangled);
    }
  }
  return std::string(demangled.substr(0, end));
}

}  // namespace devtrace

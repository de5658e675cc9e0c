// Names of functions and kernels as people read them.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace devtrace::binary {

// A name that is not mangled stays as it is.
inline std::string demangled(const std::string& name) {
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr),
                                                    std::free);
  return text ? text.get() : name;
}

// `void at::native::vectorized_elementwise_kernel<4, …>(int, …)` → at::native::vectorized_elementwise_kernel
inline std::string short_kernel_name(std::string_view signature) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t depth = 0;
  size_t end = signature.size();
  for (size_t i = 0; i < signature.size(); ++i) {
    if (signature[i] == '<' || signature[i] == '(') {
      if (depth == 0 && signature.substr(i).starts_with(kAnonymous)) {  // belongs to the name
        i += kAnonymous.size() - 1;
        continue;
      }
      if (depth++ == 0) end = std::min(end, i);
    } else if (signature[i] == '>' || signature[i] == ')') {
      --depth;
    } else if (signature[i] == ' ' && depth == 0 && end == signature.size()) {
      signature.remove_prefix(i + 1);  // the type that a template's function returns
      return short_kernel_name(signature);
    }
  }
  return std::string(signature.substr(0, end));
}

}  // namespace devtrace::binary

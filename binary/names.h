// Names of functions and kernels as people read them.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace devtrace::binary {

// A name that is not mangled stays as it is: `f` is also how a type is mangled. Without tags of its ABI, of which
// Numba's are longer than the name.
inline std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr),
                                                    std::free);
  std::string found = text ? text.get() : name;
  for (size_t at; (at = found.find("[abi:")) != found.npos;) found.erase(at, found.find(']', at) - at + 1);
  return found;
}

// `void at::native::vectorized_elementwise_kernel<4, …>(int, …)` → at::native::vectorized_elementwise_kernel
inline std::string short_kernel_name(std::string_view signature) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t depth = 0;
  size_t end = signature.size();
  bool parameters = false;  // they have begun
  for (size_t i = 0; i < signature.size(); ++i) {
    if (signature[i] == '<' || signature[i] == '(') {
      if (depth == 0 && signature.substr(i).starts_with(kAnonymous)) {  // belongs to the name
        i += kAnonymous.size() - 1;
        continue;
      }
      if (depth++ == 0) {
        end = std::min(end, i);
        parameters |= signature[i] == '(';
      }
    } else if (signature[i] == '>' || signature[i] == ')') {
      --depth;
    } else if (signature[i] == ' ' && depth == 0 && !parameters) {
      signature.remove_prefix(i + 1);  // the type that a template's function returns
      return short_kernel_name(signature);
    }
  }
  return std::string(signature.substr(0, end));
}

}  // namespace devtrace::binary

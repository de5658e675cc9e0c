// What CPython says of itself (Py_GetVersion): "3.13.5 experimental free-threading build (main, …) [GCC …]".
#pragma once

#include <cstdlib>
#include <string_view>

namespace devtrace::python {

struct Version {
  int minor = 0;  // CPython 3.minor; 0: another
  bool free_threaded = false;
};

inline Version version_of(const char* text) {
  const std::string_view whole = text;
  return {whole.starts_with("3.") ? std::atoi(text + 2) : 0, whole.find("free-threading") != std::string_view::npos};
}

}  // namespace devtrace::python

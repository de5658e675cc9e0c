// DEVTRACE_OPTIONS.
#include "tracker/base/options.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devtrace::parse_options(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

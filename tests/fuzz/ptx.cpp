// PTX as a program may hand it to the driver: torn, or made to do harm; read, and linked with itself. That what can be
// read can be run is for tests/unit/simulate/kernels/changed_test.cpp: clang has no _Float16 here.
#include <cstddef>
#include <cstdint>
#include <string>

#include "binary/ptx/link.h"
#include "binary/ptx/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  devtrace::ptx::Error error;
  devtrace::ptx::parse(text, &error);
  std::string why;
  if (const auto linked = devtrace::ptx::link({text, text}, &why)) devtrace::ptx::parse(*linked, &error);
  return 0;
}

// Cubins, PTX and fat binaries as a program may hand them over: torn, or made to do harm.
#include <cstddef>
#include <cstdint>

#include "binary/device/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace devtrace::device;
  const View image{data, size};
  Image all;
  read_image(image, 90, &all);
  for (const auto& [name, facts] : all.kernels) {
    KernelFacts one;
    read_kernel(image, 80, name, &one);
  }
  KernelFacts none;
  read_kernel(image, 90, "kernel", &none);
  // A wrapper holds a pointer, which these bytes are not to be.
  if (size < 4 || data[0] != 0xb1) image_at(data, size);
  return 0;
}

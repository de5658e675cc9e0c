#include "tracker/stacks.h"
namespace devtrace::stacks {
std::vector<NativeFrame> symbolize(void* const* addresses, size_t count, bool) {
  std::vector<NativeFrame> frames(count);
  for (size_t i = 0; i < count; ++i) frames[i].address = reinterpret_cast<uintptr_t>(addresses[i]) - 1;
  return frames;
}
}  // namespace devtrace::stacks

#include "tracker/evidence/origins/kernel_stub.h"

#include <algorithm>

#include "report/phrasing/signature.h"

namespace devtrace::evidence {
namespace {

bool is_called_by_it(const stacks::NativeFrame& frame) {
  const std::string name = report::unqualified_name(frame.function);
  return name.starts_with("__device_stub__") || name.starts_with("__wrapper__device_stub_");
}

// The host's compiler sees a lambda of the device as a class of nvcc's, with another name.
bool is_closure(std::string_view type) {
  return type.find("{lambda") != type.npos || type.find("__nv_") != type.npos;
}

bool same_types(std::string_view one, std::string_view other) {
  const auto types = report::parameter_types(one), others = report::parameter_types(other);
  return std::equal(types.begin(), types.end(), others.begin(), others.end(),
                    [](auto a, auto b) { return a == b || is_closure(a) || is_closure(b); });
}

}  // namespace

std::optional<size_t> kernel_stub(const std::vector<stacks::NativeFrame>& frames, std::string_view kernel) {
  if (kernel.empty()) return std::nullopt;
  const std::string name = report::unqualified_name(kernel);
  for (size_t i = 0; i < frames.size(); ++i) {
    const stacks::NativeFrame& frame = frames[i];
    if (frame.function == kernel) return i;
    if (i == 0 || !is_called_by_it(frames[i - 1]) || is_called_by_it(frame)) continue;
    // One that was inlined has a name without types. What the program wrote may be called as the kernel is, too: it
    // then takes something else, or stands further out.
    if (report::unqualified_name(frame.function) == name && (frame.inlined || same_types(frame.function, kernel)))
      return i;
  }
  return std::nullopt;
}

std::optional<stacks::NativeFrame> kernel_stub_at(const void* function, std::string_view kernel) {
  if (!function) return std::nullopt;
  // A return address is behind the call that it tells of, and is looked up in front of itself.
  void* const behind = const_cast<char*>(static_cast<const char*>(function) + 1);
  const std::vector<stacks::NativeFrame> frames = stacks::symbolize(&behind, 1, true);
  const auto stub = kernel_stub(frames, kernel);
  return stub ? std::optional(frames[*stub]) : std::nullopt;
}

}  // namespace devtrace::evidence

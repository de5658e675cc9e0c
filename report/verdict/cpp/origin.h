// What a C++ line says of where it puts memory, and the line with another device in it.
#pragma once

#include <optional>
#include <string_view>

#include "report/verdict/cause.h"

namespace devtrace::report::verdict {

// Of a function of CUDA's whose memory is on a device that the call says, whichever is current: what says it, and which
// call opens it to other devices. Null for others.
struct OwnerSaidBy {
  std::string_view call, what, opened_by;
};
const OwnerSaidBy* owner_said_by(std::string_view call);

// The statement of the user's that moved or made the tensor, as it would put it on `device` (cuda:1, cpu). Nothing
// where the statement shows no such call, or several.
std::optional<Fix> put_on(const Event& placed, bool moved, std::string_view device);

// LibTorch's expression for a device: torch::Device(torch::kCUDA, 1).
std::string cpp_device(std::string_view device);

}  // namespace devtrace::report::verdict

// The C++ line that put a tensor on its device, with another device in it.
#pragma once

#include <optional>
#include <string_view>

#include "report/verdict/cause.h"

namespace devtrace::report::verdict {

// The statement of the user's that moved or made the tensor, as it would put it on `device` (cuda:1, cpu). Nothing
// where the statement shows no such call, or several.
std::optional<Fix> put_on(const Event& placed, bool moved, std::string_view device);

// LibTorch's expression for a device: torch::Device(torch::kCUDA, 1).
std::string cpp_device(std::string_view device);

}  // namespace devtrace::report::verdict

// Who may reach another device's memory: programs whose job it is.
#pragma once

#include <string_view>

namespace devtrace::policy {

// Whether a kernel of this name (mangled or not) is made to read or write other devices' memory.
bool may_reach_other_devices(std::string_view kernel);

}  // namespace devtrace::policy

// This process's environment, for processes that it starts.
#pragma once

#include <map>
#include <string>

namespace devtrace::process {

// name: value; of a name that stands twice the first. What has no '=' is left out.
std::map<std::string, std::string> own_environment();

}  // namespace devtrace::process

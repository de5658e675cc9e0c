// Who asks for what may be refused and means it: a library that tries and takes another way, a tool that shows values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"

namespace devtrace::refusals {

// Why an error that is raised in these frames fails nothing, whoever raises it; nothing where nobody is known to
// expect it. Innermost first.
std::optional<std::string> swallowed(const std::vector<evidence::Frame>& frames);

}  // namespace devtrace::refusals

// What `devtrace place` prints.
#pragma once

#include <string>
#include <vector>

#include "cli/place/measure.h"

namespace devtrace::cli::place {

// A table of all tries, and for the cheapest that fits what a person writes into the program. `tokens`: how many the
// program makes; 0: nobody said so.
std::string as_text(const std::vector<Measured>& all, unsigned tokens);
std::string as_json(const std::vector<Measured>& all, unsigned tokens);

}  // namespace devtrace::cli::place

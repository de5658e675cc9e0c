// A log is a text that anybody may have sent: what it says was run is run again only when the user says so.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace devtrace::cli {

// Shows, on standard error, the command of `log` and its folder, and asks on the terminal unless `yes`. Throws Failure
// for "no", and where there is no terminal to ask on.
void ask_to_run(const std::string& log, const std::filesystem::path& folder, const std::vector<std::string>& words,
                bool yes);

}  // namespace devtrace::cli

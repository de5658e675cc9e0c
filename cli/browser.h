// A page, shown to whoever asked for it.
#pragma once

#include <string>

namespace devtrace::cli {

// Opens a file by the first of BROWSER's commands that can be started, else by xdg-open, and waits for that to end.
// Throws Failure, which says what to do, where there is neither, or it fails.
void open_in_browser(const std::string& file);

}  // namespace devtrace::cli

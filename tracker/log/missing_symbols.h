// What a library of the program does not export though devtrace needs it: in the process record, and on stderr.
#pragma once

#include <string>

#include "report/record/json.h"

namespace devtrace::log {

// [{"library", "symbol", "effect"}], of the libraries that are loaded now.
report::Json missing_symbols();

// One line that names them, once in a process and the children that it forks; nothing when none is missing. `torch`:
// its version, empty when it is not known.
void tell_missing_symbols(const report::Json& missing, const std::string& torch);

}  // namespace devtrace::log

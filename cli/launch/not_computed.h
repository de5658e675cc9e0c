// What the processes of a rehearsal have not computed, for those that end without their own list: they are killed, or
// leave by _exit, as multiprocessing's do.
#pragma once

#include <string>

namespace devtrace::cli {

// `path`: the file in which they note it (simulate/values/not_computed.cpp).
void list_not_computed(const std::string& path);

}  // namespace devtrace::cli

// New texts for files, each written whole or not at all.
#pragma once

#include <map>
#include <string>

namespace devtrace::cli {

// path: text. Keeps each file's permissions, and what a link leads to. Throws Failure for a file that cannot be
// written; those before it are written then.
void apply(const std::map<std::string, std::string>& texts);

}  // namespace devtrace::cli

// New texts for the program's files, which other people may have open.
#pragma once

#include <map>
#include <string>

namespace devtrace::cli {

// path: text, before and after. All files are looked at, and what is needed is made beside them, before any is changed.
// Throws Failure where one no longer holds the text before, or cannot be written. A file keeps owner, permissions,
// attributes and links. Another one takes its place at once where it can have all of these. Else it is written where it
// is, and a copy of it lies beside it meanwhile.
void apply(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after);

}  // namespace devtrace::cli

// What a line of C++ has in its scope, by the text of its file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report {

// The lines above number `line` (from 1) whose declarations count there: those of blocks that have ended are left out.
std::string scope_above(const std::vector<std::string>& lines, int line);

// Expressions that say a device there, the nearest first: what the scope gives to cudaSetDevice, its variables and
// members that are called after a device (`device_`, `shard.device`).
std::vector<std::string> device_expressions(const std::vector<std::string>& lines, int line);

// Whether the text has the name as a word of its own.
bool has_word(std::string_view text, std::string_view word);

// `layer` of `layer.device`, `streams` of `streams[i]`, `device_` of `this->device_`.
std::string_view root_of(std::string_view expression);

}  // namespace devtrace::report

// A program that is compiled is tried in a copy of its folder: there edits are made, it is built, and it runs.
#pragma once

#include <filesystem>
#include <string>

#include "fix/trials/candidates.h"

namespace devtrace::fix {

// Copies `tree` to `to` with its files' times, so that make builds what has changed; not what .git keeps, nor folders
// that CMake has configured, which name the original. Then the edited files are written. Throws std::runtime_error.
void copy_tree(const std::filesystem::path& tree, const std::filesystem::path& to, const Texts& texts);

// The logs in a folder name the copy's files: afterwards they name the original's.
void name_original_in_logs(const std::filesystem::path& folder, const std::filesystem::path& copy,
                           const std::filesystem::path& tree);

}  // namespace devtrace::fix

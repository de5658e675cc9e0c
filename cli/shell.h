// What shells and `man` know of the command, from the same tables as --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace devtrace::cli {

// A script that completes the command's words, for "bash", "zsh" or "fish".
std::string completion(const CLI::App& app, const std::string& shell);

// devtrace(1), in roff.
std::string man_page(const CLI::App& app);

}  // namespace devtrace::cli

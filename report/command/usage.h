// The first line of a subcommand's --help; CLI11's own knows nothing of "--".
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace devtrace::report::command {

// `form`: what follows "devtrace <subcommand>".
void set_usage(CLI::App& app, const std::string& form);

}  // namespace devtrace::report::command

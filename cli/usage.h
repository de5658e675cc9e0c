// What CLI11's own help and messages lack.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <string>

namespace devtrace::cli {

// The first line of a subcommand's --help; CLI11's knows nothing of "--". `form`: what follows "devtrace <subcommand>".
void set_usage(CLI::App& app, const std::string& form);

// The argument PID. Whoever gives a name is told how to find the number.
void add_process(CLI::App& app, pid_t& process);

}  // namespace devtrace::cli

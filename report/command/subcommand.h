// The subcommands: one small file each, one row each in the table of main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>
#include <string>

namespace devtrace::command {

constexpr int kBadUsage = 2;

// Something the user can put right. Printed as "devtrace <subcommand>: what()"; the command exits with `code`.
struct Failure : std::runtime_error {
  Failure(int code, const std::string& what) : std::runtime_error(what), code(code) {}
  int code;
};

struct Subcommand {
  const char* name;
  const char* summary;
  // Adds the options to `app` and returns what to do once they are parsed; that returns the exit code.
  std::function<int()> (*declare)(CLI::App& app);
};

std::function<int()> declare_run(CLI::App& app);
std::function<int()> declare_rehearse(CLI::App& app);
std::function<int()> declare_report(CLI::App& app);

}  // namespace devtrace::command

// The subcommands: one small file each, one row each in the table of main.cpp.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace devtrace::cli {

constexpr int kBadUsage = 2;

// Something the user can put right. Printed as "devtrace <subcommand>: what()"; the command exits with `code`.
struct Failure : std::runtime_error {
  Failure(int code, const std::string& what) : std::runtime_error(what), code(code) {}
  int code;
};

// What stood after the first "--", when there was one: CLI11 would take a program's arguments for ours.
using AfterDashes = std::optional<std::vector<std::string>>;

// What to do once the options are parsed; returns the exit code.
using Action = std::function<int(const AfterDashes&)>;

struct Subcommand {
  const char* name;
  const char* summary;
  Action (*declare)(CLI::App& app);  // adds the options to `app`
  bool takes_program = false;
};

// The first line of a subcommand's --help; CLI11's knows nothing of "--". `form`: what follows "devtrace <subcommand>".
void set_usage(CLI::App& app, const std::string& form);
// The argument PID. Whoever gives a name is told how to find the number.
void add_process(CLI::App& app, pid_t& process);

Action declare_run(CLI::App& app);
Action declare_rehearse(CLI::App& app);
Action declare_fix(CLI::App& app);
Action declare_place(CLI::App& app);
Action declare_attach(CLI::App& app);
Action declare_detach(CLI::App& app);
Action declare_top(CLI::App& app);
Action declare_report(CLI::App& app);
Action declare_check(CLI::App& app);
Action declare_fleet(CLI::App& app);
Action declare_kernel(CLI::App& app);
Action declare_doctor(CLI::App& app);

}  // namespace devtrace::cli

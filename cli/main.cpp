// devtrace: the command.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#define BOOST_STACKTRACE_USE_BACKTRACE
#include <boost/stacktrace.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/launch/installation.h"
#include "cli/shell.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "common/version.h"

namespace {

using namespace devtrace::cli;

// The stack of the command's own failure: a failed check, an exception that nobody catches, a bad address. From here on
// it goes to stderr before the command ends by the same signal.
void show_failure_stack() {
  struct sigaction action {};
  // The next such signal ends the command: the one raised here, or that of a failure in here.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  action.sa_handler = [](int signal) {
    // Names are made with malloc, whose lock the failed code may hold: then there is no stack, but an end.
    ::signal(SIGALRM, [](int) { ::_exit(128 + SIGABRT); });
    ::alarm(5);
    std::cerr << "devtrace: failed by signal " << signal << ":\n" << boost::stacktrace::stacktrace() << std::flush;
    ::raise(signal);
  };
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
}

constexpr Subcommand kSubcommands[] = {
    {"run", "run a program and explain every operation that mixes devices", declare_run, true},
    {"rehearse", "the same on a machine without GPUs: run it on simulated devices", declare_rehearse, true},
    {"fix", "try edits in rehearsal until the program runs, and leave the patch", declare_fix, true},
    {"place", "try numbers of devices, maps and batches in rehearsal: the cheapest that fits", declare_place, true},
    {"attach", "the same for a process that is already running", declare_attach},
    {"detach", "leave a process that was attached to", declare_detach},
    {"top", "what a running process has on its devices and moves between them", declare_top},
    {"report", "turn logs into text, HTML, Markdown, JSON or tables", declare_report},
    {"check", "compare logs with a baseline: fail on what is new", declare_check},
    {"fleet", "a page of many nights: which fault was seen when", declare_fleet},
    {"kernel", "a Jupyter kernel on simulated devices", declare_kernel},
    {"doctor", "what works here, and what to do where it does not", declare_doctor},
};

constexpr const char* kAbout =
    "devtrace: which tensor was on which device, who put it there, and what to change.\n"
    "\n"
    "AddressSanitizer for device placement: finds operations that mix GPUs (or a GPU and the CPU) in Python and C++ "
    "programs.";

constexpr const char* kExamples =
    "Examples:\n"
    "  devtrace run -- python train.py               report to stderr, log and HTML in the current directory\n"
    "  devtrace rehearse --gpus 2 -- python train.py the same without a GPU\n"
    "  devtrace fix -- python train.py               try edits until it runs, and leave devtrace.patch\n"
    "  devtrace attach 4242                          see a process that is already running, until Ctrl-C\n"
    "  devtrace report devtrace-4242.jsonl           read a log again\n"
    "  devtrace check --baseline devtrace.json logs/ fail when a nightly run found something new\n"
    "\n"
    "Without the command: LD_PRELOAD=/path/to/libdevtrace.so python train.py\n"
    "Options of the library: DEVTRACE_OPTIONS=help=1 devtrace run -- true";

// Number of words before the "--" of a subcommand that takes a program; the words after it go to `after`.
int split_program(int argc, char** argv, AfterDashes& after) {
  const auto takes_program = [&](const Subcommand& each) {
    return each.takes_program && argc > 1 && each.name == std::string_view(argv[1]);
  };
  if (std::none_of(std::begin(kSubcommands), std::end(kSubcommands), takes_program)) return argc;
  for (int word = 2; word < argc; ++word) {
    if (argv[word] != std::string_view("--")) continue;
    after.emplace(argv + word + 1, argv + argc);
    return word;
  }
  return argc;
}

// For programs: what this devtrace is.
int print_version_as_json() {
  std::string library;
  try {
    library = find_library().string();
  } catch (const Failure&) {  // there is none
  }
  nlohmann::ordered_json version = {{"devtrace", devtrace::kVersion}, {"log_schema", 1}, {"library", library}};
  fmt::print("{}\n", version.dump());
  return 0;
}

int fail(const char* subcommand, int code, const std::string& what) {
  fmt::print(stderr, "devtrace{}{}: {}\n", subcommand ? " " : "", subcommand ? subcommand : "",
             devtrace::printable(what, true));
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  show_failure_stack();
  if (argc == 3 && argv[1] == std::string_view("--version") && argv[2] == std::string_view("--json"))
    return print_version_as_json();
  CLI::App app(kAbout, "devtrace");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("devtrace ") + devtrace::kVersion,
                       "print the version and exit; with --json for programs");
  app.set_help_flag("-h,--help", "print this help and exit");

  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Subcommand& each : kSubcommands) {
    CLI::App* sub = app.add_subcommand(each.name, each.summary);
    sub->set_help_flag("-h,--help", "print this help and exit");
    actions.emplace_back(sub, each.declare(*sub));
  }

  std::string shell;
  bool man = false;
  app.add_option("--completion", shell, "print a script that completes the command's words: bash, zsh or fish")
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_flag("--man", man, "print the manual page, for man -l -");
  app.require_subcommand(0, 1);

  const char* chosen = nullptr;
  AfterDashes after_dashes;
  const int own_words = split_program(argc, argv, after_dashes);
  try {
    app.parse(own_words, argv);
    for (const auto& [sub, action] : actions) {
      if (!sub->parsed()) continue;
      chosen = sub->get_name().c_str();
      return action(after_dashes);
    }
    if (!shell.empty() || man) {
      fmt::print("{}", man ? man_page(app) : completion(app, shell));
      return 0;
    }
    throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    for (const auto& [sub, action] : actions) {
      if (sub->parsed()) chosen = sub->get_name().c_str();
    }
    const bool no_such = !chosen && argc > 1 && argv[1][0] != '-';
    fail(chosen, kBadUsage, no_such ? fmt::format("there is no subcommand {}", argv[1]) : error.what());
    fmt::print(stderr, "Try 'devtrace {}{}--help'.\n", chosen ? chosen : "", chosen ? " " : "");
    return kBadUsage;
  } catch (const Failure& failure) {
    return fail(chosen, failure.code, failure.what());
  } catch (const std::exception& error) {
    return fail(chosen, kBadUsage, error.what());
  }
}

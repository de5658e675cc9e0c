// devtrace doctor: what works here, and what to do where it does not.
#include <cstdio>
#include <memory>

#include "cli/doctor/checks.h"
#include "cli/launch/program_cuda.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {
namespace {

struct DoctorOptions {
  std::string python;
};

int examine(const DoctorOptions& options) {
  const doctor::Python python = doctor::ask(options.python.empty() ? usual_python() : options.python);
  if (python.path.empty() && !options.python.empty())
    throw Failure(kBadUsage, fmt::format("there is no {}", options.python));
  bool well = true;
  for (const doctor::Check& each : doctor::checks()) {
    doctor::Answer answer;
    try {
      answer = each.answer(python);
    } catch (const Failure& failure) {
      answer = {doctor::State::bad, failure.what(), ""};
    }
    const char* const state = answer.state == doctor::State::good      ? "ok"
                              : answer.state == doctor::State::missing ? "-"
                                                                       : "BAD";
    fmt::print("{:<4} {:<10} {}\n", state, each.name, printable(answer.fact));
    if (!answer.advice.empty()) fmt::print("{:16}{}\n", "", printable(answer.advice));
    std::fflush(stdout);
    well &= answer.state != doctor::State::bad;
  }
  return well ? 0 : 1;
}

}  // namespace

Action declare_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  set_usage(app, "[options]");
  app.add_option("--python", options->python, "the interpreter to ask [the active environment's, python3]")
      ->type_name("FILE");
  app.footer(
      "A line each: ok; - for what one can do without; BAD for what should work and does not. Programs are started for "
      "it, the longest for some seconds.\n"
      "\n"
      "Exit status: 0 when nothing is BAD, else 1; 2 for bad usage.");
  return [options](const AfterDashes&) { return examine(*options); };
}

}  // namespace devtrace::cli

// devtrace detach: what devtrace attach began ends.
#include <memory>
#include <optional>

#include "attach/injection.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "process/status.h"

namespace devtrace::cli {
namespace {

struct DetachOptions {
  pid_t process = 0;
  bool children = false;
};

void detach_from(pid_t process) try {
  const attach::Answer answer = attach::detach(process, fmt::format("devtrace detach {}", process));
  if (answer.result == attach::Result::unchanged)
    throw Failure(static_cast<int>(attach::Code::not_attached), fmt::format("process {} is not attached to", process));
  if (answer.result != attach::Result::changed)
    throw Failure(static_cast<int>(attach::Code::no_safe_moment),
                  fmt::format("process {}: another devtrace attach or detach is at work there", process));
  const std::string log = process::path_from_here(process, answer.value("log"));
  fmt::print(stderr, "devtrace detach: process {} is detached from; {}\n", process,
             log.empty() ? "it wrote no log" : "devtrace report " + printable(log));
} catch (const attach::Failure& failure) {
  throw Failure(static_cast<int>(failure.code), failure.what());
}

}  // namespace

Action declare_detach(CLI::App& app) {
  auto options = std::make_shared<DetachOptions>();
  set_usage(app, "[options] PID");
  add_process(app, options->process);
  app.add_flag("--children", options->children, "its child processes as well");
  app.footer(
      "No call of the process leads to devtrace any more, and what is left to be written is written. The library stays "
      "mapped, so that a later attach\n"
      "finds it. A process that was started with devtrace can be left and attached to again, too.\n"
      "\n"
      "Exit status: as of devtrace attach; 7 when the process is not attached to.");
  return [options](const AfterDashes&) {
    // With --children the one that was named may be a launcher, which was not attached to.
    std::optional<Failure> not_attached;
    try {
      detach_from(options->process);
    } catch (const Failure& failure) {
      if (!options->children || failure.code != static_cast<int>(attach::Code::not_attached)) throw;
      not_attached = failure;
    }
    if (!options->children) return 0;
    for (const pid_t child : process::descendants_of(options->process)) {
      if (!attach::has_library(child)) continue;
      try {
        detach_from(child);
        not_attached.reset();
      } catch (const Failure& failure) {
        fmt::print(stderr, "devtrace detach: {}\n", printable(failure.what()));
      }
    }
    if (not_attached) throw *not_attached;
    return 0;
  };
}

}  // namespace devtrace::cli

// devtrace attach: libdevtrace.so brought into processes that are already running.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "attach/injection.h"
#include "attach/process.h"
#include "report/base/escaping.h"
#include "report/base/format.h"
#include "report/command/installation.h"
#include "report/command/live_lines.h"
#include "report/command/program_options.h"
#include "report/command/subcommand.h"
#include "report/command/usage.h"

namespace devtrace::report::command {
namespace {

struct AttachOptions : LibraryOptions {
  pid_t process = 0;
  bool children = false, no_wait = false;
  std::string duration;
};

// "60s", "5m", "1.5h"; without a unit seconds.
std::chrono::milliseconds parse_duration(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double seconds = unit.empty() || unit == "s" ? number
                         : unit == "m"               ? number * 60
                         : unit == "h"               ? number * 3600
                                                     : -1;
  if (end == text.c_str() || !(seconds > 0) || seconds > 1e9)
    throw Failure(kBadUsage, fmt::format("--duration {}: not of the form 60s, 5m or 1h", text));
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Failure told(const attach::Failure& failure) {
  return Failure(static_cast<int>(failure.code), failure.what());
}

// What Ctrl-C and its like mean here: the end of the looking on, with the processes detached from.
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    sigprocmask(SIG_BLOCK, &set_, nullptr);
    file_ = signalfd(-1, &set_, SFD_CLOEXEC);
  }
  ~Interrupts() { close(file_); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Whether one came within the time.
  bool wait(std::chrono::milliseconds limit) const {
    pollfd one{file_, POLLIN, 0};
    return poll(&one, 1, static_cast<int>(limit.count())) > 0;
  }

 private:
  sigset_t set_;
  int file_ = -1;
};

struct Attached {
  pid_t process;
  uint64_t started;  // tells it from a later process of that number
  LiveLog log;

  bool runs() const { return attach::start_ticks_of(process) == started; }
};

// Relative to where the user is, not to the target's folder.
void make_absolute(std::string& path) {
  if (!path.empty()) path = std::filesystem::absolute(path).string();
}

class Attaching {
 public:
  explicit Attaching(const AttachOptions& options) : options_(options), library_(find_library().string()) {
    make_absolute(options_.log_path);
    text_ = options_.text();
    if (!options_.no_wait) text_ = "traffic_interval=1" + (text_.empty() ? "" : ":" + text_);
  }

  int run() {
    attach_to(options_.process);
    if (options_.children)
      for (const pid_t child : attach::descendants_of(options_.process)) attach_to_child(child);
    if (options_.no_wait) {
      say(fmt::format("stays attached; to end that: devtrace detach {}", options_.process));
      return 0;
    }
    look_on();
    leave();
    return 0;
  }

 private:
  static void say(const std::string& text) { fmt::print(stderr, "devtrace attach: {}\n", printable(text)); }

  void attach_to(pid_t process) try {
    const uint64_t started = attach::start_ticks_of(process);
    const attach::Answer answer = attach::attach(process, library_, text_, fmt::format("devtrace attach {}", process));
    tell(process, answer);
    attached_.push_back({process, started, LiveLog(process, answer.value("log"))});
  } catch (const attach::Failure& failure) {
    throw told(failure);
  }

  // Others than the one that was named may have nothing to do with CUDA, or end at any moment.
  void attach_to_child(pid_t child) {
    if (!attach::has_library(child) && !attach::uses_cuda(child)) return;
    try {
      attach_to(child);
    } catch (const Failure& failure) {
      say(failure.what());
    }
  }

  void tell(pid_t process, const attach::Answer& answer) const {
    const std::string log = answer.value("log");
    const std::string where = log.empty() ? "no log can be written there" : "log " + log;
    if (answer.result == attach::Result::unchanged)
      return say(answer.value("preloaded").empty()
                     ? fmt::format("process {} is attached to already; {}", process, where)
                     : fmt::format("process {} was started with devtrace and is being watched; {}", process, where));
    if (answer.result != attach::Result::changed)
      throw attach::Failure(attach::Code::no_safe_moment,
                            fmt::format("process {}: another devtrace attach or detach is at work there", process));
    say(fmt::format("attached to process {}; {}; what was before is not known", process, where));
    if (!answer.value("no_gil").empty())
      say(
          fmt::format("process {}: Python's GIL did not come within a second: what Python code itself refuses is not "
                      "seen",
                      process));
  }

  void look_on() {
    using namespace std::chrono_literals;
    const auto limit = options_.duration.empty() ? std::chrono::milliseconds::max() : parse_duration(options_.duration);
    const auto begin = std::chrono::steady_clock::now();
    const Interrupts interrupts;
    LiveLines lines;
    if (options_.duration.empty()) say("Ctrl-C detaches");
    for (bool any = true; any;) {
      const auto passed =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      if (passed >= limit || interrupts.wait(std::min<std::chrono::milliseconds>(500ms, limit - passed))) break;
      any = false;
      std::vector<const LiveLog*> logs;
      for (Attached& each : attached_) {
        any |= each.runs();
        lines.show(each.log, each.log.read(), attached_.size() > 1);
        logs.push_back(&each.log);
      }
      lines.draw(logs);
    }
  }

  void leave() {
    for (Attached& each : attached_) {
      std::string how = "has ended";
      if (each.runs()) try {
          attach::detach(each.process, fmt::format("devtrace detach {}", each.process));
          how = "is detached from";
        } catch (const attach::Failure& failure) {
          how = failure.what();
        }
      each.log.read();
      say(fmt::format("process {} {}; {} finding{}; devtrace report {}", each.process, how, each.log.findings(),
                      each.log.findings() == 1 ? "" : "s", each.log.path()));
    }
  }

  AttachOptions options_;
  std::string library_, text_;
  std::vector<Attached> attached_;
};

}  // namespace

Action declare_attach(CLI::App& app) {
  auto options = std::make_shared<AttachOptions>();
  set_usage(app, "[options] PID");
  app.add_option("PID", options->process, "the process")->required()->type_name("");
  app.add_flag("--children", options->children, "its child processes as well, those that use CUDA now");
  app.add_option("--duration", options->duration, "detach after that time: 60s, 5m, 1h")->type_name("TIME");
  app.add_flag("--no-wait", options->no_wait, "come back at once, and stay attached until devtrace detach");
  options->declare_library(app);
  app.footer(
      "Findings are shown as they come, with what moves between devices each second, until Ctrl-C, which detaches. The "
      "log and the page are written as\n"
      "with devtrace run, by default into the folder in which the process is. Where memory was allocated that is older "
      "is not known.\n"
      "\n"
      "One thread of the process stands still for some milliseconds; a system call that it waits in may fail with "
      "EINTR. No debugger is needed.\n"
      "\n"
      "Exit status: 0; 2 for bad usage; 3 when there is no such process, or it is exiting; 4 when tracing it is not "
      "allowed; 5 when it cannot be attached\n"
      "to; 6 when it has not loaded CUDA; 8 when there was no moment or no answer; 9 when the library cannot be opened "
      "in it. Nothing of the process has\n"
      "changed then.");
  return [options](const AfterDashes&) {
    if (!options->duration.empty()) parse_duration(options->duration);
    return Attaching(*options).run();
  };
}

}  // namespace devtrace::report::command

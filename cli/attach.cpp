// devtrace attach: libdevtrace.so brought into processes that are already running. devtrace top: the same, and at the
// end everything is as it was found.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "attach/injection.h"
#include "cli/launch/installation.h"
#include "cli/launch/program_options.h"
#include "cli/live/live_lines.h"
#include "cli/live/rank_rows.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "process/memory.h"
#include "process/status.h"

namespace devtrace::cli {
namespace {

struct AttachOptions : LibraryOptions {
  const char* subcommand = "attach";
  pid_t process = 0;
  bool children = false, no_wait = false;
  bool leave_as_found = false;
  std::string duration;
};

// What Ctrl-C and its like mean while a process is looked on at: the end of that, with the process left in order.
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

Failure failure_of(const attach::Failure& failure) {
  return Failure(static_cast<int>(failure.code), failure.what());
}

std::string where_it_writes(pid_t process, const attach::Answer& answer) {
  if (const std::string log = answer.value("log"); !log.empty()) return "log " + process::path_from_here(process, log);
  const std::string wanted = answer.value("cannot_write");
  if (wanted.empty()) return "no log yet: it has not used CUDA";
  return fmt::format(
      "its user cannot write the log {}, so findings are told on its stderr alone; detach, and attach "
      "with --log-path FILE",
      wanted);
}

struct Attached {
  pid_t process;
  uint64_t started;  // tells it from a later process of that number
  live::Watched watched;
  uint64_t memory_at;      // where the library keeps a LiveMemory; 0: it is an older one
  bool found_watching;     // it was preloaded, or attached to already
  std::string interval{};  // then: the seconds after which it wrote what moves

  bool runs() const { return process::start_ticks_of(process) == started; }

  void read_memory() {
    LiveMemory now;
    const bool read = memory_at != 0 && process::RemoteMemory(process).read(memory_at, now);
    if (read && now.version == LiveMemory::kVersion) watched.memory = now;
  }
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
    if (options_.children)
      attach_to_all();
    else
      attach_to(options_.process);
    if (options_.no_wait) {
      print_line(fmt::format("stays attached; to end that: devtrace detach {}{}",
                             options_.children ? "--children " : "", options_.process));
      return 0;
    }
    look_on();
    leave();
    return 0;
  }

 private:
  void print_line(const std::string& text) const {
    fmt::print(stderr, "devtrace {}: {}\n", options_.subcommand, printable(text));
  }

  void attach_to(pid_t process) try {
    const uint64_t started = process::start_ticks_of(process);
    const attach::Answer answer =
        attach::attach(process, library_, text_, fmt::format("devtrace {} {}", options_.subcommand, process));
    announce(process, answer);
    attached_.push_back({process,
                         started,
                         {live::LiveLog(process, process::path_from_here(process, answer.value("log"))), {}, {}},
                         std::strtoull(answer.value("memory").c_str(), nullptr, 10),
                         answer.result == attach::Result::unchanged,
                         answer.value("traffic_interval")});
  } catch (const attach::Failure& failure) {
    throw failure_of(failure);
  }

  // The one that was named may be a launcher, which has nothing to do with CUDA.
  void attach_to_all() {
    std::optional<Failure> without_cuda;
    try {
      attach_to(options_.process);
    } catch (const Failure& failure) {
      if (failure.code != static_cast<int>(attach::Code::no_cuda)) throw;
      without_cuda = failure;
    }
    for (const pid_t child : process::descendants_of(options_.process)) attach_to_child(child);
    if (attached_.empty() && without_cuda) throw *without_cuda;
  }

  // Others than the one that was named may have nothing to do with CUDA, or end at any moment.
  void attach_to_child(pid_t child) {
    if (!attach::has_library(child) && !attach::uses_cuda(child)) return;
    try {
      attach_to(child);
    } catch (const Failure& failure) {
      print_line(failure.what());
    }
  }

  void announce(pid_t process, const attach::Answer& answer) const {
    const std::string where = where_it_writes(process, answer);
    if (answer.result == attach::Result::unchanged)
      return print_line(
          answer.value("preloaded").empty()
              ? fmt::format("process {} is attached to already; {}", process, where)
              : fmt::format("process {} was started with devtrace and is being watched; {}", process, where));
    if (answer.result != attach::Result::changed)
      throw attach::Failure(attach::Code::no_safe_moment,
                            fmt::format("process {}: another devtrace attach or detach is at work there", process));
    const std::string blocks = answer.value("blocks");
    print_line(fmt::format("attached to process {}; {}; {}", process, where,
                           blocks.empty() || blocks == "0"
                               ? "what was before is not known"
                               : fmt::format("{} block{} of PyTorch's memory {} there before, made nobody saw where",
                                             blocks, blocks == "1" ? "" : "s", blocks == "1" ? "was" : "were")));
    if (!answer.value("no_gil").empty())
      print_line(
          fmt::format("process {}: Python's GIL did not come within a second: what Python code itself refuses is not "
                      "seen",
                      process));
  }

  void look_on() {
    using namespace std::chrono_literals;
    const auto limit = options_.duration.empty() ? std::chrono::milliseconds::max() : parse_duration(options_.duration);
    const auto begin = std::chrono::steady_clock::now();
    const Interrupts interrupts;
    live::LiveLines lines;
    const RankTable* const ranks = attached_.empty() ? nullptr : live::rank_table_of(attached_.front().process);
    if (options_.duration.empty()) print_line(options_.leave_as_found ? "Ctrl-C ends" : "Ctrl-C detaches");
    for (bool any = true; any;) {
      const auto passed =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      if (passed >= limit || interrupts.wait(std::min<std::chrono::milliseconds>(500ms, limit - passed))) break;
      any = false;
      std::vector<const live::Watched*> all;
      for (Attached& each : attached_) {
        any |= each.runs();
        each.read_memory();
        lines.show(each.watched, each.watched.log.read(), attached_.size() > 1);
        all.push_back(&each.watched);
      }
      if (ranks) lines.take_ranks(live::rank_rows(*ranks));
      lines.draw(all);
    }
  }

  // How it was left, in words.
  std::string leave(Attached& each) const try {
    const std::string again = fmt::format("devtrace detach {}", each.process);
    if (!each.runs()) return "has ended";
    if (options_.leave_as_found && each.found_watching) {
      attach::attach(each.process, library_, "traffic_interval=" + each.interval, again);
      return "is being watched as before";
    }
    attach::detach(each.process, again);
    return "is detached from";
  } catch (const attach::Failure& failure) {
    return failure.what();
  }

  void leave() {
    for (Attached& each : attached_) {
      const std::string how = leave(each);
      live::LiveLog& log = each.watched.log;
      log.read();
      if (log.path().empty())
        print_line(fmt::format("process {} {}; it wrote no log", each.process, how));
      else
        print_line(fmt::format("process {} {}; {} finding{}; devtrace report {}", each.process, how, log.findings(),
                               log.findings() == 1 ? "" : "s", log.path()));
    }
  }

  AttachOptions options_;
  std::string library_, text_;
  std::vector<Attached> attached_;
};

}  // namespace

namespace {

void declare_looking_on(CLI::App& app, AttachOptions& options) {
  set_usage(app, "[options] PID");
  add_process(app, options.process);
  app.add_flag("--children", options.children, "its child processes as well, those that use CUDA now");
  app.add_option("--duration", options.duration, "end after that time: 60s, 5m, 1h")->type_name("TIME");
}

Action action_for(const std::shared_ptr<AttachOptions>& options) {
  return [options](const AfterDashes&) {
    if (!options->duration.empty()) parse_duration(options->duration);
    return Attaching(*options).run();
  };
}

constexpr const char* kExitStatus =
    "Exit status: 0; 2 for bad usage; 3 when there is no such process, or it is exiting; 4 when tracing it is not "
    "allowed; 5 when it cannot be attached\n"
    "to; 6 when it has not loaded CUDA; 8 when there was no moment or no answer; 9 when the library cannot be opened "
    "in it. Nothing of the process has\n"
    "changed then.";

}  // namespace

Action declare_attach(CLI::App& app) {
  auto options = std::make_shared<AttachOptions>();
  declare_looking_on(app, *options);
  app.add_flag("--no-wait", options->no_wait, "come back at once, and stay attached until devtrace detach");
  options->declare_library(app);
  app.footer(
      std::string("Findings are shown as they come, with the memory of each device and what moves between devices each "
                  "second, until Ctrl-C, which detaches.\n"
                  "The log and the page are written as with devtrace run, by default into the folder in which the "
                  "process is. Where memory was\n"
                  "made that is older nobody saw.\n"
                  "\n"
                  "One thread of the process stands still for some milliseconds; a system call that it waits in may "
                  "fail with EINTR. No debugger is needed.\n"
                  "\n") +
      kExitStatus);
  return action_for(options);
}

Action declare_top(CLI::App& app) {
  auto options = std::make_shared<AttachOptions>();
  options->subcommand = "top";
  options->leave_as_found = true;
  declare_looking_on(app, *options);
  options->declare_library(app);
  app.footer(
      std::string("The memory of each device, what each call site moves between devices a second, and findings as they "
                  "come, until Ctrl-C. Of a rank of a\n"
                  "job that was started with devtrace also which ranks wait in which collective, and where those are "
                  "that have not come. A process that devtrace\n"
                  "is not in is attached to, and detached from at the end; one that was started with it, or is "
                  "attached to, stays watched.\n"
                  "\n") +
      kExitStatus);
  return action_for(options);
}

}  // namespace devtrace::cli

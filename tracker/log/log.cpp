#include "tracker/log/log.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "report/html/html.h"
#include "tracker/base/files.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/spinlock.h"
#include "tracker/log/missing_symbols.h"
#include "tracker/log/process_record.h"

namespace devtrace::log {
namespace {

using report::Json;

// Leaked on purpose: hooks run after static destructors. The lock is for what is made once; writes are ordered by
// O_APPEND.
struct State {
  Json process;
  std::string log;
  std::string html;
  bool log_failed = false;
  bool html_failed = false;
  bool html_begun = false;
};
SpinLock lock;
std::atomic<State*> state{nullptr};

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char* directory = ::getcwd(nullptr, 0);  // now: the program may change its directory
  std::string result = directory ? std::string(directory) + "/" + path : path;
  std::free(directory);
  return result;
}

std::string with_html_ending(const std::string& log) {
  const size_t slash = log.rfind('/');
  const size_t dot = log.rfind('.');
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  return (has_ending ? log.substr(0, dot) : log) + ".html";
}

// Appends to the log, and complains once when it cannot be done.
void append_or_complain(const std::string& path, const std::string& data, bool& failed, const char* what) {
  if (failed) return;
  const int fault = files::append(path, data);
  if (fault == 0) return;
  failed = true;
  warn(std::string("cannot write the ") + what + " " + path + ": " + std::strerror(fault) +
       "; the program runs on, findings are only told here (DEVTRACE_OPTIONS=log_path=... names another place)");
}

// Seconds since the epoch when this machine was started.
double boot_time() {
  timespec now{}, up{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  return static_cast<double>(now.tv_sec - up.tv_sec) + static_cast<double>(now.tv_nsec - up.tv_nsec) * 1e-9;
}

// Whether the log that begins with that record was written on another machine, or in another container, that shares our
// disk, where our pid is somebody else's. An earlier life of our machine is none.
bool of_another_machine(const Json& earlier, const Json& process) {
  if (earlier.value("host", "") != process.value("host", "")) return true;
  const std::string boot = earlier.value("boot", "");
  if (!boot.empty() && boot != process.value("boot", "")) return earlier.value("started", 0.0) >= boot_time();
  const std::string numbers = earlier.value("pid_namespace", "");
  return !numbers.empty() && numbers != process.value("pid_namespace", "");
}

enum class Before { nothing, ours, stale, theirs };

// What lies where our log is to be. A file that this process left before it called exec is ours, and appended to; so is
// what is no log, which is never destroyed.
Before before_us(const std::string& path, const Json& process) try {
  constexpr size_t kLongestRecord = 1u << 20;  // of a process: its command, mostly
  const auto start = files::read_start(path, kLongestRecord);
  if (!start || start->empty()) return Before::nothing;
  const Json earlier = Json::parse(start->substr(0, start->find('\n')), nullptr, false);
  if (!earlier.is_object() || earlier.value("record", "") != "process") return Before::ours;
  if (of_another_machine(earlier, process)) return Before::theirs;
  return earlier.value("start_ticks", uint64_t{0}) == process.value("start_ticks", uint64_t{1}) ? Before::ours
                                                                                                : Before::stale;
} catch (...) {
  return Before::ours;  // fields of other types
}

// Does the pattern hold %p? "%%p" does not.
bool names_process(std::string_view pattern) {
  for (size_t at = pattern.find('%'); at != pattern.npos && at + 1 < pattern.size(); at = pattern.find('%', at + 2))
    if (pattern[at + 1] == 'p') return true;
  return false;
}

// `path`, when it may hold this process's log. A file that an earlier process with the same number left is removed, and
// where another machine's process with that number writes, the host's name is added.
std::string free_path(const std::string& path, const std::string& pattern, const Json& process) {
  if (!names_process(pattern)) return path;
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const size_t stem = dot == std::string::npos || (slash != std::string::npos && dot < slash) ? path.size() : dot;
  std::string candidate = path;
  for (int round = 2; round < 100; ++round) {
    const Before before = before_us(candidate, process);
    if (before == Before::stale) {
      ::unlink(candidate.c_str());
      ::unlink(with_html_ending(candidate).c_str());
    }
    if (before != Before::theirs) return candidate;
    std::string addition = "-" + process.value("host", "");
    if (round > 2) addition += "-" + std::to_string(round - 1);
    for (char& c : addition)
      if (c == '/') c = '-';
    candidate = path.substr(0, stem) + addition + path.substr(stem);
  }
  return candidate;
}

// A page shows one process: where several write one log (a log_path without %p), the first has the page of its name.
std::string page_beside(const std::string& log, const Json& process) {
  const Before before = before_us(log, process);
  if (before != Before::stale && before != Before::theirs) return with_html_ending(log);
  const std::string page = with_html_ending(log);
  return page.substr(0, page.size() - 5) + "-" + std::to_string(::getpid()) + ".html";
}

// Whether there is a page already, which begins like this one: that of the program which this process ran before it
// called exec. A second head would be a second page in one file.
bool has_page(const std::string& path, const std::string& head) {
  constexpr size_t kBegins = 64;
  const auto start = files::read_start(path, kBegins);
  return start && start->size() == kBegins && head.starts_with(*start);
}

State& make() {
  auto fresh = std::make_unique<State>();
  fresh->process = process_record();
  fresh->log = absolute(expand(options().log_path));
  const std::lock_guard hold(lock);
  if (State* existing = state.load(std::memory_order_acquire)) return *existing;
  fresh->log = free_path(fresh->log, options().log_path, fresh->process);
  if (options().html) fresh->html = page_beside(fresh->log, fresh->process);
  append_or_complain(fresh->log, report::json_line(fresh->process), fresh->log_failed, "log");
  if (verbose())
    explain("log: %s%s; page: %s", fresh->log.c_str(), fresh->log_failed ? " (not written)" : "",
            fresh->html.empty() ? "none" : fresh->html.c_str());
  state.store(fresh.get(), std::memory_order_release);
  return *fresh.release();
}

State& made() {
  if (State* existing = state.load(std::memory_order_acquire)) return *existing;
  State& fresh = make();
  // Not under the lock: stderr may be a pipe that is full.
  tell_missing_symbols(fresh.process.value("missing_symbols", Json::array()), fresh.process.value("torch", ""));
  return fresh;
}

}  // namespace

const Json& process() {
  return made().process;
}
std::string working_directory() {
  return process().value("cwd", "");
}
void open() {
  made();
}
void pytorch_loaded() {
  if (is_open()) tell_missing_symbols(missing_symbols(), torch_version());
}
bool is_open() {
  return state.load(std::memory_order_acquire) != nullptr;
}
void try_again() {
  State* const current = state.load(std::memory_order_acquire);
  if (current && current->log_failed) state.store(nullptr, std::memory_order_release);  // leaked: others may hold it
}

void write(Json record) {
  State& current = made();
  record["pid"] = ::getpid();
  append_or_complain(current.log, report::json_line(record), current.log_failed, "log");
}

void write_html(const std::string& html) {
  State& current = made();
  if (current.html.empty() || current.log_failed) return;  // one complaint a directory is enough
  std::string text;
  if (!current.html_begun) {
    text = report::html_head(current.process);
    if (has_page(current.html, text)) text = report::html_record(report::json_line(current.process));
  }
  current.html_begun = true;
  append_or_complain(current.html, text + html, current.html_failed, "HTML report");
}

bool has_html() {
  return is_open() && made().html_begun && !made().html_failed;
}

std::string path() {
  const State& current = made();
  return current.log_failed ? std::string() : current.log;
}

std::string wanted_path() {
  return made().log;
}

std::string html_path() {
  const State& current = made();
  return current.log_failed || current.html_failed ? std::string() : current.html;
}

std::string expand(const std::string& pattern) {
  std::string path;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = std::string_view(pattern).substr(at);
    if (rest.starts_with("%p")) {
      path += std::to_string(::getpid());
      ++at;
    } else if (rest.starts_with("%h")) {
      char host[HOST_NAME_MAX + 1] = {};
      if (::gethostname(host, HOST_NAME_MAX) == 0) path += host;
      ++at;
    } else if (rest.starts_with("%%")) {
      path += '%';
      ++at;
    } else if (const size_t end = rest.find('}'); rest.starts_with("%q{") && end != std::string_view::npos) {
      const char* value = std::getenv(std::string(rest.substr(3, end - 3)).c_str());
      path += value ? value : "";
      at += end;
    } else {
      path += pattern[at];
    }
  }
  return path;
}

void before_fork() {
  lock.lock();
}

void after_fork(bool child) {
  if (child) state.store(nullptr, std::memory_order_release);  // leaked: the parent's paths are no use here
  lock.unlock();
}

}  // namespace devtrace::log

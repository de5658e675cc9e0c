// devtrace attach and detach, in the process: `devtrace attach` has a thread of the process open this library and call
// devtrace_attach; a program may do both itself.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "interpose/cuda/intercepted_hook.h"
#include "interpose/devtrace.h"
#include "interpose/injection.h"
#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/imports/import_slots.h"
#include "interpose/linking/original.h"
#include "interpose/python/exception_hook.h"
#include "interpose/python/pool_hook.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/thread_state.h"
#include "tracker/log/log.h"
#include "tracker/memory/live_memory.h"
#include "tracker/session.h"

namespace {

using namespace devtrace;

enum class State { as_loaded, watching, detached, changing };
constinit std::atomic<State> state{State::as_loaded};

// The process is changed by one thread at a time; what it was before is the answer, and stays it until `end`. Of a
// thread that comes meanwhile it is `changing`, and its end changes nothing.
class Change {
 public:
  Change() {
    before_ = state.load();
    while (before_ != State::changing && !state.compare_exchange_weak(before_, State::changing)) {
    }
    if (before_ == State::as_loaded) before_ = interpose::loaded_late() ? State::detached : State::watching;
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  State before() const { return before_; }
  int end(State now, int answer) {
    if (before_ != State::changing) state.store(now);
    return answer;
  }

 private:
  State before_;
};

void answer(char* reply, size_t size, const std::string& text) {
  if (!reply || size == 0) return;
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(reply, text.data(), length);
  reply[length] = '\0';
}

std::string log_line() {
  if (!log::is_open()) return "log=\n";
  const std::string path = log::path();
  return "log=" + path + "\n" + (path.empty() ? "cannot_write=" + log::wanted_path() + "\n" : "");
}

// Where the log is, and, for whoever may read this process's memory, how much of each device's is in use.
std::string lines_to_look_on() {
  return log_line() + "memory=" + std::to_string(reinterpret_cast<uintptr_t>(&memory::live_memory::now())) + "\n";
}

void write_moment(const char* record) {
  if (log::is_open()) log::write({{"record", record}, {"time", process_start::now()}});
}

// Whoever attaches after a log could not be written may have said another place for it.
void open_again() {
  if (!log::is_open()) return;  // it is opened when there is something to write
  const ReentrancyGuard inside;
  log::try_again();
  log::open();
}

// A library that was opened by CUDA (CUDA_INJECTION64_PATH) sees by CUPTI until then: only one way may tell.
std::string begin(const char* text) {
  const bool again = process_start::attached() > 0 || !interpose::loaded_late();
  set_options(text ? text : "");
  interpose::leave_cupti();
  session::attached();
  std::string reply;
  if (interpose::loaded_late()) {
    const interpose::import_slots::Redirected done = interpose::import_slots::redirect();
    reply = "slots=" + std::to_string(done.slots) + "\nleft=" + std::to_string(done.left) + "\n";
  }
  interpose::cuda_runtimes::look();
  if (!interpose::hook_exceptions()) reply += "no_gil=1\n";
  interpose::hook_pool();
  const ReentrancyGuard inside;
  log::try_again();
  log::open();
  if (again) write_moment("attached");
  const size_t blocks = session::look_at_preexisting();
  return reply + "blocks=" + std::to_string(blocks) + "\n" + lines_to_look_on();
}

std::string end() {
  const ReentrancyGuard inside;
  interpose::leave_cupti();
  interpose::mute(true);
  if (interpose::loaded_late()) interpose::import_slots::restore();
  interpose::unhook_exceptions();
  interpose::unhook_pool();
  session::detached();
  write_moment("detached");
  return log_line();
}

}  // namespace

extern "C" {

DEVTRACE_EXPORT int devtrace_attach(const char* text, char* reply, size_t size) {
  Change change;
  if (change.before() == State::changing) return change.end(State::changing, DEVTRACE_BUSY);
  try {
    if (change.before() == State::watching) {
      const std::string interval = "traffic_interval=" + std::to_string(options().traffic_interval) + "\n";
      if (text && *text) {
        add_options(text);
        open_again();
      }
      answer(reply, size, lines_to_look_on() + interval + (interpose::loaded_late() ? "" : "preloaded=1\n"));
      return change.end(State::watching, DEVTRACE_UNCHANGED);
    }
    answer(reply, size, begin(text));
    return change.end(State::watching, DEVTRACE_CHANGED);
  } catch (...) {  // out of memory
    return change.end(State::detached, DEVTRACE_FAILED);
  }
}

DEVTRACE_EXPORT int devtrace_watching(void) {
  const State now = state.load();
  return now == State::as_loaded ? !interpose::loaded_late() : now == State::watching;
}

DEVTRACE_EXPORT int devtrace_detach(char* reply, size_t size) {
  Change change;
  if (change.before() == State::changing) return change.end(State::changing, DEVTRACE_BUSY);
  if (change.before() == State::detached) return change.end(State::detached, DEVTRACE_UNCHANGED);
  try {
    answer(reply, size, end());
  } catch (...) {
  }
  return change.end(State::detached, DEVTRACE_CHANGED);
}
}

#include "attach/interpreter_call.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "attach/debug_offsets.h"
#include "attach/signals_held.h"
#include "common/format.h"
#include "common/remote_call.h"

namespace devtrace::attach {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToCome = 500ms;   // back to Python's instructions
constexpr auto kTimeToOpen = 3000ms;  // once the library is mapped: another thread may hold the loader's lock
constexpr auto kTimeToAnswer = 30s;

// The main thread of the main interpreter: it lives as long as that does. Others' states may be freed at any moment,
// and must not be written to.
struct MainThread {
  uintptr_t eval_breaker = 0, pending_call = 0, script_path = 0;
};

std::optional<MainThread> find_main_thread(const Target& target) {
  for (const LoadedObject& object : target.objects) {
    const std::string file = object.file();
    if (file.find("python") == file.npos) continue;
    const uintptr_t runtime = RemoteObject(target.memory, object.start).symbol("_PyRuntime").begin;
    uint64_t words[DebugOffsets::kMostWords];
    if (runtime == 0 || !target.memory.read(runtime, words)) continue;
    const auto offsets = parse_debug_offsets(words);
    if (!offsets) continue;
    const auto pointer = [&](uintptr_t at) {
      uintptr_t value = 0;
      return target.memory.read(at, value) ? value : 0;
    };
    const uintptr_t interpreter = pointer(runtime + offsets->interpreters_head);
    uint32_t enabled = 0;
    if (pointer(runtime + offsets->finalizing) != 0 || interpreter == 0 ||
        !target.memory.read(interpreter + offsets->remote_debugging_enabled, enabled) || enabled != 1)
      return std::nullopt;
    const uintptr_t thread = pointer(interpreter + offsets->threads_main);
    if (thread == 0) return std::nullopt;
    return MainThread{thread + offsets->eval_breaker, thread + offsets->pending_call, thread + offsets->script_path};
  }
  return std::nullopt;
}

// As a Python string's content.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

// The script, as a file of the process's user. It imports nothing that is not built in, and takes itself away: this
// process may be killed before that one comes to it. Then the file is left where that never does.
class Script {
 public:
  Script(const std::string& library, uid_t user) {
    path_ = (std::filesystem::temp_directory_path() / "devtrace-XXXXXX").string();
    const int file = ::mkstemp(path_.data());
    if (file < 0) {
      path_.clear();
      return;
    }
    const std::string text = fmt::format(
        "try:\n"
        "    import posix\n"
        "    posix.unlink(b'{}')\n"
        "except BaseException:\n"
        "    pass\n"
        "try:\n"
        "    import _imp, sys\n"
        "    _imp.create_dynamic(type(sys.implementation)(name='devtrace_remote_call', origin=b'{}'.decode('utf-8', "
        "'surrogateescape')))\n"
        "except BaseException:\n"
        "    pass\n",
        escaped(path_), escaped(library));
    written_ = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
               ::fchmod(file, 0644) == 0 && (user == ::geteuid() || ::fchown(file, user, -1) == 0);
    ::close(file);
  }
  ~Script() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  bool written() const { return written_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool written_ = false;
};

class RemoteState {
 public:
  explicit RemoteState(const Target& target) : target_(target) {}

  // Once the library is mapped, and as new as this one.
  bool find() {
    if (at_ != 0) return true;
    const auto objects = loaded_objects(process::mappings_of(target_.process));
    const LoadedObject* const library = find_library(objects);
    if (library) at_ = RemoteObject(target_.memory, library->start).symbol(RemoteCall::kSymbol).begin;
    uint32_t version = 0;
    if (at_ != 0 && (!read(offsetof(RemoteCall, version), version) || version != RemoteCall::kVersion)) at_ = 0;
    return at_ != 0;
  }

  bool waits() const {
    uint32_t state = RemoteCall::idle, process = 0;
    return read(offsetof(RemoteCall, process), process) && process == static_cast<uint32_t>(target_.process) &&
           read(offsetof(RemoteCall, state), state) && state == RemoteCall::waiting;
  }

  Answer ask(const Request& request) const {
    const uint32_t detach = request.name == "devtrace_detach", asked = RemoteCall::asked;
    const std::string options = request.options.value_or("");
    if (!write(offsetof(RemoteCall, options), options.c_str(), options.size() + 1) ||
        !write(offsetof(RemoteCall, detach), &detach, sizeof detach) ||
        !write(offsetof(RemoteCall, state), &asked, sizeof asked))
      throw target_.ended();
    const auto until = Clock::now() + kTimeToAnswer;
    for (auto pause = 1ms; Clock::now() < until; pause = std::min<decltype(pause)>(pause * 2, 20ms)) {
      uint32_t state = 0, result = 0;
      if (!read(offsetof(RemoteCall, state), state)) throw target_.ended();
      if (state == RemoteCall::answered && read(offsetof(RemoteCall, result), result)) {
        Answer answer{static_cast<Result>(result),
                      target_.memory.text(at_ + offsetof(RemoteCall, reply), sizeof RemoteCall::reply)};
        const uint32_t idle = RemoteCall::idle;
        write(offsetof(RemoteCall, state), &idle, sizeof idle);
        return answer;
      }
      std::this_thread::sleep_for(pause);
    }
    throw Failure(
        Code::no_safe_moment,
        fmt::format("process {}: no answer in {} seconds: another thread holds the loader's lock, or Python's; "
                    "when it lets go, what was asked for still happens",
                    target_.process, kTimeToAnswer / 1s));
  }

 private:
  bool read(size_t offset, uint32_t& value) const { return target_.memory.read(at_ + offset, value); }
  bool write(size_t offset, const void* data, size_t bytes) const {
    return target_.memory.write(at_ + offset, data, bytes);
  }

  const Target& target_;
  uintptr_t at_ = 0;
};

// As CPython's own command for it does: the path, the mark, and the bit for which the thread stops to look. Of that
// word one byte is written, as soon as it was read: what another thread sets between the two would be lost.
bool ask_interpreter(const Target& target, const MainThread& thread, const std::string& script) {
  constexpr uint8_t kStop = 1 << 5;
  const uint32_t pending = 1;
  uint8_t bits = 0;
  if (!target.memory.write(thread.script_path, script.c_str(), script.size() + 1) ||
      !target.memory.write(thread.pending_call, &pending, sizeof pending) ||
      !target.memory.read(thread.eval_breaker, bits))
    return false;
  bits |= kStop;
  return target.memory.write(thread.eval_breaker, &bits, sizeof bits);
}

// True: it was still there, so nobody has come.
bool withdraw(const Target& target, const MainThread& thread) {
  uint32_t pending = 0;
  const uint32_t none = 0;
  return target.memory.read(thread.pending_call, pending) && pending == 1 &&
         target.memory.write(thread.pending_call, &none, sizeof none);
}

// Has the main thread opened the library, where a thread waits for what is asked?
bool comes(const Target& target, const MainThread& thread, const std::string& library, RemoteState& state) {
  const SignalsHeld held;  // for as long as there is a file
  const Script script(library, target.status.user);
  if (!script.written() || script.path().size() >= DebugOffsets::kPathBytes || !target.sees(script.path()))
    return false;
  if (!ask_interpreter(target, thread, script.path())) return false;
  bool withdrawn = false;
  const auto begin = Clock::now();
  for (auto pause = 1ms;; pause = std::min<decltype(pause)>(pause * 2, 20ms)) {
    if (state.find() && state.waits()) return true;
    const auto passed = Clock::now() - begin;
    if (passed > kTimeToOpen || (withdrawn && passed > kTimeToCome + 50ms)) return false;
    // Who has begun is waited for, else nobody will come.
    if (passed > kTimeToCome && !withdrawn) withdrawn = withdraw(target, thread);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

std::optional<Answer> call_by_interpreter(const Target& target, const Request& request) {
  const LoadedObject* const there = target.library();
  const auto thread = find_main_thread(target);
  if (!thread || request.options.value_or("").size() >= sizeof RemoteCall::options) return std::nullopt;
  RemoteState state(target);
  if (there && !state.find()) return std::nullopt;  // an older library
  if (!comes(target, *thread, there ? there->path : request.library, state)) return std::nullopt;
  return state.ask(request);
}

}  // namespace devtrace::attach

#include "simulate/model/summary.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "common/signal_handler.h"
#include "simulate/model/device.h"
#include "simulate/values/unknown.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

std::atomic<pid_t> g_pid{0};  // whose end is waited for; 0: nobody's

const char* folder() {
  const char* value = std::getenv("DEVTRACE_SIM_SUMMARY");
  return value && *value ? value : nullptr;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char escaped[8];
    if (static_cast<unsigned char>(c) < ' ') {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

template <class Map, class Json>
std::string object(const Map& members, const Json& value) {
  std::string out = "{";
  for (const auto& [key, each] : members) out += (out.size() > 1 ? "," : "") + quoted(key) + ':' + value(each);
  return out + '}';
}

// Empty: nothing was computed.
std::string summary(pid_t pid) {
  std::map<std::string, unsigned long> launches;
  unsigned long all = 0;
  for (int i = 0; i < device_count(); ++i) {
    const std::string name = "cuda:" + std::to_string(i);
    all += launches[name] = device(i).launches.load(std::memory_order_relaxed);
  }
  const values::NotComputed missing = values::not_computed();
  if (all == 0 && missing.operators.empty()) return {};
  const auto number = [](unsigned long value) { return std::to_string(value); };
  return "{\"pid\":" + std::to_string(pid) + ",\"launches\":" + object(launches, number) +
         ",\"values\":" + (values::are_computed() ? "true" : "false") +
         (values::left_as_unknown() ? ",\"left\":" + number(values::left_as_unknown()) : "") +
         ",\"not_computed\":{\"kernels\":" + object(missing.kernels, number) +
         ",\"operators\":" + object(missing.operators, quoted) + "}}\n";
}

// Whole, or not at all: a reader may come while it is written.
bool write(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
  if (file < 0) return false;
  bool whole = true;
  for (size_t done = 0; whole && done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    whole = count > 0;
    if (whole) done += static_cast<size_t>(count);
  }
  ::close(file);
  if (whole && ::rename(part.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  ::unlink(part.c_str());
  errno = error;
  return false;
}

void summarize() {
  pid_t pid = getpid();
  if (!g_pid.compare_exchange_strong(pid, 0)) return;  // done, or a child: its parent tells
  const char* where = folder();
  const std::string text = where ? summary(getpid()) : std::string();
  if (text.empty() || write(std::string(where) + '/' + std::to_string(getpid()) + ".json", text)) return;
  std::fprintf(stderr, "devtrace: DEVTRACE_SIM_SUMMARY=%s: %s\n", where, std::strerror(errno));
}

[[noreturn]] void leave(const char* name, int status) {
  if (!may_be_in_signal_handler()) summarize();
  if (auto* next = reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, name))) next(status);
  for (;;) syscall(SYS_exit_group, status);
}

}  // namespace

void summarize_at_exit() {
  if (!folder()) return;
  g_pid = getpid();
  std::atexit(summarize);
}

}  // namespace devtrace::simulate

// Python's os._exit, by which the workers of multiprocessing end.
extern "C" __attribute__((visibility("default"))) void _exit(int status) {
  devtrace::simulate::leave("_exit", status);
}
extern "C" __attribute__((visibility("default"))) void _Exit(int status) {
  devtrace::simulate::leave("_Exit", status);
}

// Launches on a device so far. For tests.
extern "C" __attribute__((visibility("default"))) uint64_t devtrace_sim_launches(int ordinal) {
  using namespace devtrace::simulate;
  return initialized() && valid_device(ordinal) ? device(ordinal).launches.load(std::memory_order_relaxed) : 0;
}

// A process that another one knows: a pid alone is given out again. In a header, as the stub libraries link no folder
// but their own.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace devtrace {

struct RunningProcess {
  int pid = 0;
  uint64_t started = 0;  // in the kernel's ticks
};

// When it started; 0: gone, or a zombie. Of /proc/PID/stat field 3, the state, and field 22, which follow the name in
// brackets. No malloc.
inline uint64_t start_of_process(int pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* at = std::strrchr(text, ')');
  if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; at && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at ? std::strtoull(at, nullptr, 10) : 0;
}

inline RunningProcess this_process() {
  const int pid = ::getpid();
  return {pid, start_of_process(pid)};
}

inline bool is_running(const RunningProcess& process) {
  return process.started != 0 && start_of_process(process.pid) == process.started;
}

}  // namespace devtrace

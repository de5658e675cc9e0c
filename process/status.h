// What the kernel tells of another process without being asked to stop it (/proc).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace devtrace::process {

// Of /proc/PID/status, and who owns /proc/PID.
struct Status {
  std::string name;
  char state = '?';  // R, S, D, T (stopped), t (traced), Z (ended), X
  pid_t tracer = 0;
  pid_t group = 0;  // the process that it is a thread of: itself, unless a thread's number was asked for
  uid_t user = 0;
  bool same_pid_namespace = true;
  bool dumpable = true;  // the kernel lets its user look at it
  pid_t parent = 0;
  int seccomp = 0;           // 1: read, write and exit alone; 2: filters
  int seccomp_filters = -1;  // how many; -1: the kernel does not say it
};
// Nothing: there is no such process.
std::optional<Status> status_of(pid_t process);
Status parse_status(const std::string& text);

std::vector<pid_t> threads_of(pid_t process);

// The process's children and theirs, parents first.
std::vector<pid_t> descendants_of(pid_t process);

// Whether the thread sleeps in a system call.
bool sleeps_in_system_call(pid_t process, pid_t thread);

// The name under which we find a file that the process names: a container's, or a service's with a /tmp of its own, is
// another one here.
std::string path_from_here(pid_t process, const std::string& file);

// In ticks since the machine was started: tells a process from a later one with its number. 0: there is none.
uint64_t start_ticks_of(pid_t process);

}  // namespace devtrace::process

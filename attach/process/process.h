// What the kernel tells of another process without being asked to stop it (/proc).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace devtrace::attach {

// A stretch of a file that is mapped, or of the kernel's ("[vdso]").
struct Mapping {
  uintptr_t begin = 0, end = 0;
  bool executable = false;
  uint64_t offset = 0;
  std::string path;  // empty: no file's

  std::string file() const { return path.substr(path.rfind('/') + 1); }  // without the folder
};

// What a line of /proc/PID/maps says; nothing: it is none.
std::optional<Mapping> parse_mapping(const std::string& line);

// The mappings of files, in the order of their addresses.
std::vector<Mapping> mappings_of(pid_t process);

// Where the mapping that holds a thread's stack pointer begins, if that is the stack with which the thread was made:
// the process's own, or the one that its thread pointer lies in as well. 0: it is another (a coroutine's), or nobody's.
uintptr_t own_stack(pid_t process, uintptr_t stack_pointer, uintptr_t thread_pointer);

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

}  // namespace devtrace::attach

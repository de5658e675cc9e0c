// What a process has mapped, as the kernel tells it (/proc/PID/maps).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace devtrace::process {

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

// Where the mapping that holds a thread's stack pointer begins, if that is the stack with which the thread was made.
// That is the process's own, or the one that its thread pointer lies in as well. 0: it is another (a coroutine's), or
// nobody's.
uintptr_t own_stack(pid_t process, uintptr_t stack_pointer, uintptr_t thread_pointer);

}  // namespace devtrace::process

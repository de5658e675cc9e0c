// A process before it is touched: whether it may be, and what is loaded in it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "attach/process/failure.h"
#include "attach/process/remote_object.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/status.h"

namespace devtrace::attach {

// Throws Failure where it cannot be attached to. `again`: what the user typed.
struct Target {
  pid_t process;
  std::string again;
  process::Status status;
  std::vector<LoadedObject> objects;
  process::RemoteMemory memory;

  Target(pid_t process, const std::string& again);

  // libdevtrace.so in it, or nullptr.
  const LoadedObject* library() const;
  bool uses_cuda() const;
  // Its C library has registered the first thread's restartable sequences (rseq), and will each other's.
  bool registers_rseq() const;

  // Throws where no library could be brought in: there is no loader, or no glibc.
  void check_c_library() const;

  // It sees the library's file as we do: it may live in a container of its own, with other files.
  bool sees(const std::string& file) const;
  void check_library(const std::string& library) const;

  // Throws for a process that runs in another's memory until it calls exec (vfork, posix_spawn): what is done to it is
  // done to that.
  void check_memory_is_its_own() const;

  // The failure of a call of ptrace, or of its memory's.
  [[noreturn]] void refuse_access() const;
  Failure ended() const;
};

// Throws where a debugger has the process.
void check_untraced(pid_t process, const process::Status& status);

bool is_cuda(const LoadedObject& object);
const LoadedObject* find_library(const std::vector<LoadedObject>& objects);

}  // namespace devtrace::attach

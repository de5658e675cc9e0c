// A function of libdevtrace.so called in a running process, by a thread of its own that is made for that. No debugger
// is needed, no code is overwritten, and one thread stands still for some milliseconds.
#pragma once

#include <sys/types.h>

#include <string>

#include "attach/process/failure.h"
#include "attach/request.h"

namespace devtrace::attach {

// devtrace_attach in the process, which opens `library` first unless it has one already. Throws Failure; nothing of the
// process has changed then. `again`: what the user typed.
Answer attach(pid_t process, const std::string& library, const std::string& options, const std::string& again);

// devtrace_detach.
Answer detach(pid_t process, const std::string& again);

// Whether there is something in the process that devtrace could see: CUDA, or PyTorch for it.
bool uses_cuda(pid_t process);

// Whether a libdevtrace.so is mapped.
bool has_library(pid_t process);

}  // namespace devtrace::attach

// Why a process cannot be attached to, in words for who asked for it, with the command's exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace devtrace::attach {

// docs/guide/attach.md lists them.
enum class Code : int {
  no_process = 3,
  no_permission = 4,
  cannot_be = 5,  // another architecture, no loader, stopped, a kernel thread
  no_cuda = 6,
  not_attached = 7,
  no_safe_moment = 8,
  library = 9,
};

struct Failure : std::runtime_error {
  Failure(Code code, const std::string& what) : std::runtime_error(what), code(code) {}
  Code code;
};

}  // namespace devtrace::attach

#include "attach/injection.h"

#include <algorithm>

#include "attach/interpreter_call.h"
#include "attach/process/seccomp.h"
#include "attach/process/target.h"
#include "attach/thread_call.h"
#include "common/format.h"

namespace devtrace::attach {
namespace {

// CPython 3.14 and later have a way of their own to be asked from outside. It comes second: the program's audit hooks
// hear of it, and what they forbid is a traceback on its stderr.
Answer call(const Target& target, const Request& request) {
  if (target.status.seccomp != 0)
    try_under_filters(target.process, request.library.empty() ? target.library()->path : request.library,
                      target.registers_rseq());
  try {
    return call_by_thread(target, request);
  } catch (const Failure& failure) {
    if (failure.code != Code::no_permission && failure.code != Code::cannot_be) throw;
    target.check_memory_is_its_own();  // that other way would reach the parent
    if (const auto answer = call_by_interpreter(target, request)) return *answer;
    throw;
  }
}

// The number at hand is often a launcher's: a shell's, torchrun's, that of devtrace run itself.
std::string without_cuda(const Target& target) {
  const std::string what = fmt::format("process {} ({}) has not loaded CUDA", target.process, target.status.name);
  const std::vector<pid_t> below = process::descendants_of(target.process);
  const auto child = std::ranges::find_if(below, uses_cuda);
  if (child == below.end())
    return what + ", so there is nothing to see; attach when it has, or start it with: devtrace run";
  return fmt::format("{}, but its child process {} has; give that number, or --children", what, *child);
}

}  // namespace

std::string Answer::value(const std::string& key) const {
  const std::string text = "\n" + reply;
  const size_t at = text.find("\n" + key + "=");
  if (at == text.npos) return {};
  const size_t begin = at + key.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

Answer attach(pid_t process, const std::string& library, const std::string& options, const std::string& again) {
  const Target target(process, again);
  Request request{library, "devtrace_attach", 0, options};
  if (const LoadedObject* const there = target.library()) {
    request.function = RemoteObject(target.memory, there->start).symbol(request.name).begin;
    if (request.function == 0)
      throw Failure(Code::library, fmt::format("process {} has an older {} that cannot be attached to: start it anew",
                                               process, there->path));
  } else {
    target.check_c_library();
    if (!target.uses_cuda()) throw Failure(Code::no_cuda, without_cuda(target));
    target.check_library(library);
  }
  return call(target, request);
}

Answer detach(pid_t process, const std::string& again) {
  const Target target(process, again);
  const LoadedObject* const there = target.library();
  if (!there)
    throw Failure(Code::not_attached, fmt::format("process {} ({}) is not attached to", process, target.status.name));
  const uintptr_t function = RemoteObject(target.memory, there->start).symbol("devtrace_detach").begin;
  if (function == 0)
    throw Failure(Code::library,
                  fmt::format("process {} has an older {} that cannot be detached from", process, there->path));
  return call(target, {"", "devtrace_detach", function, std::nullopt});
}

bool uses_cuda(pid_t process) {
  return std::ranges::any_of(loaded_objects(process::mappings_of(process)), is_cuda);
}

bool has_library(pid_t process) {
  const auto objects = loaded_objects(process::mappings_of(process));
  return find_library(objects) != nullptr;
}

}  // namespace devtrace::attach

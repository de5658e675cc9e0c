// Computing is not the program's doing: libdevtrace.so must not see what it refuses or where it puts things.
#pragma once

#include <dlfcn.h>

namespace devtrace::simulate::values {

// While one lives, the calling thread is not watched. Nothing happens where there is no libdevtrace.so.
class Unwatched {
 public:
  Unwatched() { call(pause()); }
  ~Unwatched() { call(resume()); }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  using Function = void (*)();
  static Function find(const char* name) { return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name)); }
  static Function pause() {
    static const Function function = find("devtrace_pause");
    return function;
  }
  static Function resume() {
    static const Function function = find("devtrace_resume");
    return function;
  }
  static void call(Function function) {
    if (function) function();
  }
};

}  // namespace devtrace::simulate::values

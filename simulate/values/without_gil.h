// Waiting for another thread that may need the GIL.
#pragma once

#include <dlfcn.h>

namespace devtrace::simulate::values {

// While one lives, the calling thread does not hold the GIL. Nothing happens where it does not, or without a Python.
class WithoutGil {
 public:
  WithoutGil() {
    static const auto initialized = find<int (*)()>("Py_IsInitialized");
    static const auto held = find<int (*)()>("PyGILState_Check");
    static const auto save = find<void* (*)()>("PyEval_SaveThread");
    if (initialized && held && save && initialized() && held()) state_ = save();
  }
  ~WithoutGil() {
    static const auto restore = find<void (*)(void*)>("PyEval_RestoreThread");
    if (state_) restore(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  template <typename Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
  void* state_ = nullptr;
};

}  // namespace devtrace::simulate::values

// For functions that stand in front of the C library's of the same name.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdarg>

namespace devtrace {

// The function behind ours: the C library's, or another tool's in between. Null: there is none, and nobody calls ours.
template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}
  Function* get() {
    Function* known = function_.load(std::memory_order_relaxed);
    if (known) return known;
    known = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
    function_.store(known, std::memory_order_relaxed);
    return known;
  }
  template <class... Arguments>
  auto operator()(Arguments... arguments) {
    return get()(arguments...);
  }

 private:
  const char* const name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace devtrace

// The mode that stands behind the flags of open(2) where they ask for one.
// NOLINTBEGIN(bugprone-macro-parentheses): names of variables.
#define GET_MODE(mode, flags)                                  \
  mode_t mode = 0;                                             \
  if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list rest;                                              \
    va_start(rest, flags);                                     \
    mode = static_cast<mode_t>(va_arg(rest, unsigned));        \
    va_end(rest);                                              \
  }
// NOLINTEND(bugprone-macro-parentheses)

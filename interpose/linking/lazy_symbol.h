// A function that is asked something: of a library that may not be loaded yet, looked for until it is found.
#pragma once

#include <atomic>

#include "interpose/linking/original.h"

namespace devtrace::interpose {

template <class Function>
class LazySymbol {
 public:
  constexpr LazySymbol(const char* library, const char* symbol) : library_(library), symbol_(symbol) {}

  // The library's own function, not a hook of it; null while there is none. A library without it (an older one) costs a
  // search each time.
  Function get() {
    void* found = found_.load(std::memory_order_relaxed);
    if (!found) found_.store(found = find_in_library(library_, symbol_), std::memory_order_relaxed);
    return reinterpret_cast<Function>(found);
  }

 private:
  const char* library_;
  const char* symbol_;
  std::atomic<void*> found_{nullptr};
};

}  // namespace devtrace::interpose

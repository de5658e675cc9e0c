// What is benchmarked below Python frames: in an interpreter started here (the first libpython found), whose take()
// runs `in_python`, and whose below(n) calls take() from below n frames.
#pragma once

#include <chrono>
#include <thread>

#include "tests/unit/tracker/stacks/embedded_python.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::testing {

inline void (*in_python)() = nullptr;

// Started at the first call; null: there is no libpython.
inline const EmbeddedPython* python() {
  static const EmbeddedPython* started = []() -> const EmbeddedPython* {
    const auto paths = libpythons();
    if (paths.empty()) return nullptr;
    auto* found = new EmbeddedPython(paths.front());
    found->start("take", [] { in_python(); });
    in_python = [] { stacks::capture_python(); };
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // until a Python is looked for again
    found->run("def below(n):\n  if n > 1: below(n - 1)\n  else: take()\nbelow(2)\nfor i in range(1000): len('')");
    return found;
  }();
  return started;
}

}  // namespace devtrace::testing

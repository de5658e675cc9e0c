// The CPython of this process as a thing to read frames of: found, recognised, and tried before it is trusted.
#pragma once

#include <atomic>
#include <string>

#include "common/python_api.h"
#include "tracker/python/layout.h"

namespace devtrace::python {

struct PythonReader {
  python::WithoutGil api;
  Layout layout;
  uintptr_t code_type;
};

// The reader if Python's frames can be read on this thread now, else nullptr. Cheap when the answer is settled either
// way.
namespace detail {
[[gnu::visibility("hidden")]] extern std::atomic<const PythonReader*> published;  // once it is trusted
const PythonReader* find_and_try();
}  // namespace detail
inline const PythonReader* python_reader() {
  const PythonReader* const known = detail::published.load(std::memory_order_acquire);
  return known ? known : detail::find_and_try();
}

// As stacks.h says.
std::string python_status();

// `died` is called with the address of each code object that dies, from before the first reader is given out: for
// whoever keeps keys made of such addresses. One observer; to be set before main.
void observe_code_deaths(void (*died)(uintptr_t code));

void before_fork_reader();
void after_fork_reader();

}  // namespace devtrace::python

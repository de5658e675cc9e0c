// Linked into a second probe in place of the true rows (ld --wrap): a row that DEVTRACE_TEST_LAYOUT=field:value makes
// wrong.
#include <cstdlib>
#include <cstring>

#include "tracker/python/layout.h"

using devtrace::python::Layout;

extern "C" const Layout* __real__ZN8devtrace6python9layout_ofEib(int minor, bool free_threaded);

extern "C" const Layout* __wrap__ZN8devtrace6python9layout_ofEib(int minor, bool free_threaded) {
  static Layout wrong;
  const Layout* row = __real__ZN8devtrace6python9layout_ofEib(minor, free_threaded);
  const char* change = std::getenv("DEVTRACE_TEST_LAYOUT");
  if (row == nullptr || change == nullptr) return row;
  wrong = *row;
  const auto value = static_cast<uint16_t>(std::atoi(std::strchr(change, ':') + 1));
  const auto is = [change](const char* field) {
    return std::strncmp(change, field, std::strchr(change, ':') - change) == 0;
  };
  if (is("thread_top")) wrong.thread_top = value;
  if (is("frame_previous")) wrong.frame_previous = value;
  if (is("frame_code")) wrong.frame_code = value;
  if (is("frame_instruction")) wrong.frame_instruction = value;
  if (is("code_first_line")) wrong.code_first_line = value;
  if (is("code_filename")) wrong.code_filename = value;
  if (is("code_name")) wrong.code_name = value;
  if (is("code_line_table")) wrong.code_line_table = value;
  return &wrong;
}

// One refusal is raised several times: PyTorch's C++ error becomes a Python exception, a worker's exception is raised
// again in the thread that waits for it, a compiler wraps it in one of its own.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace devtrace::findings {

class RecentMessages {
 public:
  // An error of this text has been looked at. `in_python`: a Python exception.
  void add(std::string_view message, bool in_python);

  // Whether a Python exception that is being made only says again what was looked at: it holds the text of a C++ error,
  // or more than the text of an earlier Python exception, or, `while_handling` another, the very text.
  bool repeats(std::string_view message, bool while_handling) const;

 private:
  struct Entry {
    std::string text;  // its first line
    bool in_python = false;
  };
  std::array<Entry, 32> entries_;
  size_t next_ = 0;
};

}  // namespace devtrace::findings

// Text that is written line by line.
#pragma once

#include <iterator>
#include <string>
#include <utility>

#include "common/format.h"

namespace devtrace::report {

class Lines {
 protected:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  std::string out_;
};

}  // namespace devtrace::report

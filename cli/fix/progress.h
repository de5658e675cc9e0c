// What `fix` is doing, on standard error: one line that is written over on a terminal, a line each elsewhere.
#pragma once

#include "fix/trials/search.h"

namespace devtrace::cli {

class ProgressLine {
 public:
  ProgressLine();
  void show(const fix::Progress& progress);
  void clear();

 private:
  bool terminal_;
};

}  // namespace devtrace::cli

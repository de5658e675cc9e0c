// What the processes of a rehearsal have not computed, for those that end without their own list: they are killed, or
// leave by _exit, as multiprocessing's do.
#pragma once

#include <string>

namespace devtrace::cli {

// The file in which they note it (simulate/values/not_computed.cpp); gone when this is.
class NotComputed {
 public:
  NotComputed();
  ~NotComputed();
  NotComputed(const NotComputed&) = delete;
  NotComputed& operator=(const NotComputed&) = delete;

  const std::string& path() const { return path_; }  // empty: there is none
  void list() const;

 private:
  std::string path_;
};

}  // namespace devtrace::cli

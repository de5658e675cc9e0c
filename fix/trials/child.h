// A program in a process group of its own, with its output in a file, and a time limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>

#include "process/start.h"

namespace devtrace::fix {

struct ProgramToRun : process::Program {
  std::filesystem::path folder;  // where it runs; empty: here
  int inherited = -1;            // a descriptor that it gets
};

class Child {
 public:
  // Its standard input is empty; output and errors go to `output`, one after the other. Throws process::CannotStart
  // when it cannot be started. It is killed when this process ends.
  Child(const ProgramToRun& program, const std::filesystem::path& output);
  // A child that runs already, in a process group of its own.
  explicit Child(pid_t running) : pid_(running), started_(std::chrono::steady_clock::now()) {}
  ~Child();  // kills it when it still runs
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  bool ended();  // looks whether it has; does not wait
  // Asks it to end, and kills its group and what else carries that folder's mark when it does not within two seconds.
  void end(const std::filesystem::path& mark);
  // Its exit code, or 128 + the signal's number. Once it has ended.
  int code() const { return code_; }
  double seconds() const;

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  std::chrono::steady_clock::time_point started_, ended_;
};

}  // namespace devtrace::fix

// What is called in a process, and what comes back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace devtrace::attach {

// As interpose/devtrace.h numbers them.
enum class Result : int { changed = 0, unchanged = 1, busy = 2, failed = 3 };

struct Answer {
  Result result = Result::failed;
  std::string reply;  // lines of key=value
  std::string value(const std::string& key) const;
};

struct Request {
  std::string library;  // to be opened; empty: `function` is there already
  std::string name;     // of the function
  uint64_t function = 0;
  std::optional<std::string> options;  // the first argument; the reply's place and its size follow
};

}  // namespace devtrace::attach

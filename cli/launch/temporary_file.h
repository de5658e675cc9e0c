// A file in which the processes of a program note something for the command; gone when this is.
#pragma once

#include <string>

namespace devtrace::cli {

class TemporaryFile {
 public:
  explicit TemporaryFile(const char* name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int error() const { return error_; }  // an errno: why there is none
  const std::string& path() const { return path_; }
  bool has_text() const;

 private:
  std::string path_;
  int error_ = 0;
};

}  // namespace devtrace::cli

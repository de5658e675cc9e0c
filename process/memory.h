// Memory of another process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace devtrace::process {

class RemoteMemory {
 public:
  explicit RemoteMemory(pid_t process) : process_(process) {}

  // All of it, or false with errno.
  bool read(uintptr_t address, void* out, size_t bytes) const;
  bool write(uintptr_t address, const void* data, size_t bytes) const;

  // As much of it as there is.
  size_t read_some(uintptr_t address, void* out, size_t bytes) const;

  template <class T>
  bool read(uintptr_t address, T& out) const {
    return read(address, &out, sizeof out);
  }

  // Whether the text stands there, with its end.
  bool same(uintptr_t address, std::string_view text) const { return this->text(address, text.size() + 1) == text; }

  // Up to its end, or to `most` characters.
  std::string text(uintptr_t address, size_t most) const;

 private:
  pid_t process_;
};

}  // namespace devtrace::process

// Reads memory that may not be there.
#pragma once

#include <fcntl.h>

#include <cstdint>

#include "tracker/base/kernel_calls.h"

namespace devtrace::python {

// The kernel copies into a pipe and out again, so an address that is not mapped is an answer and not a crash.
// (Sandboxes that forbid process_vm_readv allow this.) Under a microsecond a read. Without a free file descriptor every
// read fails. The C library's functions are not called: a sanitizer that stands before them would look at the address
// itself.
class SafeMemory {
 public:
  SafeMemory() {
    if (kernel_call(SYS_pipe2, ends_, O_CLOEXEC | O_NONBLOCK) != 0) ends_[0] = ends_[1] = -1;
  }
  ~SafeMemory() {
    if (ends_[0] == -1) return;
    kernel_call(SYS_close, ends_[0]);
    kernel_call(SYS_close, ends_[1]);
  }
  SafeMemory(const SafeMemory&) = delete;
  SafeMemory& operator=(const SafeMemory&) = delete;

  bool usable() const { return ends_[0] != -1; }

  // At most a page. Nothing of `out` is meaningful when it returns false.
  bool copy(uintptr_t address, void* out, size_t bytes) const {
    const long written = kernel_call(SYS_write, ends_[1], address, bytes);
    if (written <= 0) return false;
    return read_back(out, written) && static_cast<size_t>(written) == bytes;
  }

  template <class T>
  bool read(uintptr_t address, T& value) const {
    return copy(address, &value, sizeof value);
  }

 private:
  bool read_back(void* out, long bytes) const { return kernel_call(SYS_read, ends_[0], out, bytes) == bytes; }

  int ends_[2];
};

}  // namespace devtrace::python

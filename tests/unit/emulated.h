// Whether a test runs under qemu's user mode (`make ARCH=aarch64 unit`), which lacks some of what Linux does.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace devtrace {

// Every Linux that devtrace runs on has process_vm_readv, unless the machine forbids it, with another error.
inline bool emulated() {
#ifdef __x86_64__
  return false;
#else
  char from = 1, to = 0;
  const iovec here{&to, 1}, there{&from, 1};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1 && errno == ENOSYS;
#endif
}

// qemu 7.2 with pages larger than 4 KiB (QEMU_PAGESIZE) leaves mappings out of /proc/self/maps, and keeps memory that
// madvise gives back, without devtrace, too.
inline bool emulated_large_pages() {
  return emulated() && sysconf(_SC_PAGESIZE) > 4096;
}

}  // namespace devtrace

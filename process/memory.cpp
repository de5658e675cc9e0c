#include "process/memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <vector>

namespace devtrace::process {

size_t RemoteMemory::read_some(uintptr_t address, void* out, size_t bytes) const {
  // A read that begins in mapped memory ends where that does, at whole ranges only: so a page each.
  constexpr size_t kPage = 4096;
  size_t done = 0;
  while (done < bytes) {
    const size_t part = std::min(bytes - done, kPage - (address + done) % kPage);
    const iovec here{static_cast<char*>(out) + done, part};
    const iovec there{reinterpret_cast<void*>(address + done), part};
    if (::process_vm_readv(process_, &here, 1, &there, 1, 0) != static_cast<ssize_t>(part)) break;
    done += part;
  }
  return done;
}

bool RemoteMemory::read(uintptr_t address, void* out, size_t bytes) const {
  const iovec here{out, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(process_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

bool RemoteMemory::write(uintptr_t address, const void* data, size_t bytes) const {
  const iovec here{const_cast<void*>(data), bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_writev(process_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

std::string RemoteMemory::text(uintptr_t address, size_t most) const {
  std::vector<char> buffer(most);
  const size_t size = read_some(address, buffer.data(), most);
  return std::string(buffer.data(), std::find(buffer.data(), buffer.data() + size, '\0'));
}

}  // namespace devtrace::process

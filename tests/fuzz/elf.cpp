// An object file on disk, whose symbols name native frames.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "binary/elf/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = ::memfd_create("object", 0);
  if (::write(file, data, size) == static_cast<ssize_t>(size)) {
    const devtrace::elf::File object("/proc/self/fd/" + std::to_string(file));
    size_t length = 0;
    object.has(".debug_line");
    object.for_each_symbol([&](const Elf64_Sym&, const char* name) { length += std::string(name).size(); });
  }
  ::close(file);
  return 0;
}

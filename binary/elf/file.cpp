#include "binary/elf/file.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binary/elf/segments.h"

namespace devtrace::elf {
namespace {

// Not by the C library's functions: another preloaded library may have its own, and not be ready yet.
binary::View mapped(const std::string& path) {
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (file == -1) return {};
  struct stat status;
  void* at = MAP_FAILED;
  if (syscall(SYS_fstat, file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
    at = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  syscall(SYS_close, file);
  if (at == MAP_FAILED) return {};
  return {static_cast<const uint8_t*>(at), static_cast<size_t>(status.st_size)};
}

}  // namespace

File::File(const std::string& path) : Sections(mapped(path)) {}

File::~File() {
  if (object().size > 0) munmap(const_cast<uint8_t*>(object().data), object().size);
}

bool File::has_segment(uint32_t type) const {
  bool found = false;
  for_each_segment(object(), 0, [&](const Elf64_Phdr& segment) { found = found || segment.p_type == type; });
  return found;
}

// The loader never touches .symtab, so it comes from the disk: in large pieces, and with few page faults.
void File::read_ahead(binary::View bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data) & ~(::getauxval(AT_PAGESZ) - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data) + bytes.size;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);  // Linux 5.14; without it, only slower
}

}  // namespace devtrace::elf

#include "binary/elf/elf_file.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace devtrace::elf {

ElfFile::ElfFile(const std::string& path) {
  // Not by the C library's functions: another preloaded library may have its own, and not be ready yet.
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (file == -1) return;
  struct stat status;
  if (syscall(SYS_fstat, file, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size >= static_cast<off_t>(sizeof(Elf64_Ehdr))) {
    void* mapped = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped != MAP_FAILED) {
      data_ = static_cast<const char*>(mapped);
      size_ = status.st_size;
    }
  }
  syscall(SYS_close, file);
  if (data_ == nullptr || std::memcmp(data_, ELFMAG, SELFMAG) != 0 || data_[EI_CLASS] != ELFCLASS64) return;
  const auto header = read<Elf64_Ehdr>(0);
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > size_ ||
      header.e_shnum > (size_ - header.e_shoff) / sizeof(Elf64_Shdr)) {
    return;
  }
  first_section_ = header.e_shoff;
  sections_ = header.e_shnum;
}

ElfFile::~ElfFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

// The loader never touches .symtab, so it comes from the disk: in large pieces, and with few page faults.
void ElfFile::read_ahead(const Elf64_Shdr& section) const {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data_ + section.sh_offset) & ~(::getauxval(AT_PAGESZ) - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(data_ + section.sh_offset + section.sh_size);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);  // Linux 5.14; without it, only slower
}

Elf64_Shdr ElfFile::find(std::string_view name) const {
  if (sections_ == 0) return {};
  const size_t names_index = read<Elf64_Ehdr>(0).e_shstrndx;
  if (names_index >= sections_) return {};
  const Elf64_Shdr names = section_at(names_index);
  if (!inside(names)) return {};
  for (size_t i = 0; i < sections_; ++i) {
    const Elf64_Shdr section = section_at(i);
    const size_t at = section.sh_name;
    if (at < names.sh_size && name == std::string_view(data_ + names.sh_offset + at,
                                                       strnlen(data_ + names.sh_offset + at, names.sh_size - at))) {
      return section;
    }
  }
  return {};
}

std::string_view ElfFile::bytes_of(std::string_view section) const {
  const Elf64_Shdr found = find(section);
  if (found.sh_name == 0 || found.sh_type == SHT_NOBITS || !inside(found)) return {};
  return {data_ + found.sh_offset, found.sh_size};
}

}  // namespace devtrace::elf

// An object file as it lies on disk: for what the loader does not map.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace devtrace::elf {

class ElfFile {
 public:
  // A file that cannot be read or is no 64-bit ELF has no sections.
  explicit ElfFile(const std::string& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  bool has_section(std::string_view name) const { return find(name).sh_name != 0; }
  // Its bytes in the file; empty where it has none, or the section is not there.
  std::string_view bytes_of(std::string_view section) const;

  // Calls visit(const Elf64_Sym&, const char* name) for each symbol of .symtab: the file's own functions too, if not
  // stripped.
  template <class Visit>
  void for_each_symbol(Visit&& visit) const {
    for (size_t i = 0; i < sections_; ++i) {
      const Elf64_Shdr section = section_at(i);
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections_ || !inside(section)) continue;
      const Elf64_Shdr strings = section_at(section.sh_link);
      if (!inside(strings)) continue;
      read_ahead(section);
      // A name without an end has the file's end for one, and behind that may be nothing.
      const char* const names = data_ + strings.sh_offset;
      if (strings.sh_size == 0 || names[strings.sh_size - 1] != '\0') continue;
      for (size_t n = 0; n < section.sh_size / sizeof(Elf64_Sym); ++n) {
        const auto symbol = read<Elf64_Sym>(section.sh_offset + n * sizeof(Elf64_Sym));
        if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < strings.sh_size) visit(symbol, names + symbol.st_name);
      }
    }
  }

 private:
  // What stands in a file need not be aligned.
  template <class T>
  T read(size_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }
  Elf64_Shdr section_at(size_t index) const { return read<Elf64_Shdr>(first_section_ + index * sizeof(Elf64_Shdr)); }

  // Without a name: there is none.
  Elf64_Shdr find(std::string_view name) const;

  bool inside(const Elf64_Shdr& section) const {
    return section.sh_offset <= size_ && section.sh_size <= size_ - section.sh_offset;
  }

  void read_ahead(const Elf64_Shdr& section) const;

  const char* data_ = nullptr;
  size_t size_ = 0;
  size_t first_section_ = 0;  // where it stands
  size_t sections_ = 0;
};

}  // namespace devtrace::elf

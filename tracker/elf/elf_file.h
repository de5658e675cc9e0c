// An object file as it lies on disk: for what the loader does not map.
#pragma once

#include <elf.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace devtrace::stacks {

class ElfFile {
 public:
  // A file that cannot be read or is no 64-bit ELF has no sections.
  explicit ElfFile(const std::string& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  bool has_section(std::string_view name) const;

  // Calls visit(const Elf64_Sym&, const char* name) for each symbol of .symtab: the file's own functions too, if not
  // stripped.
  template <class Visit>
  void for_each_symbol(Visit&& visit) const {
    for (size_t i = 0; i < sections_; ++i) {
      const Elf64_Shdr& section = section_[i];
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections_ || !inside(section)) continue;
      const Elf64_Shdr& strings = section_[section.sh_link];
      if (!inside(strings)) continue;
      read_ahead(section);
      const auto* symbol = reinterpret_cast<const Elf64_Sym*>(data_ + section.sh_offset);
      for (size_t n = section.sh_size / sizeof(Elf64_Sym); n != 0; --n, ++symbol) {
        if (symbol->st_shndx != SHN_UNDEF && symbol->st_name < strings.sh_size) {
          visit(*symbol, data_ + strings.sh_offset + symbol->st_name);
        }
      }
    }
  }

 private:
  bool inside(const Elf64_Shdr& section) const {
    return section.sh_offset <= size_ && section.sh_size <= size_ - section.sh_offset;
  }

  void read_ahead(const Elf64_Shdr& section) const;

  const char* data_ = nullptr;
  size_t size_ = 0;
  const Elf64_Shdr* section_ = nullptr;
  size_t sections_ = 0;
};

}  // namespace devtrace::stacks

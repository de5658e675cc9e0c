// An object file as it lies on disk: for what the loader does not map.
#pragma once

#include <string>

#include "binary/elf/sections.h"

namespace devtrace::elf {

class File : public Sections {
 public:
  // A file that cannot be read has nothing.
  explicit File(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Of another architecture as well.
  bool is_elf() const { return object().text().starts_with(ELFMAG); }
  bool has_segment(uint32_t type) const;

  // Calls visit(const Elf64_Sym&, const char* name) for each symbol of .symtab: the file's own functions too, if not
  // stripped.
  template <class Visit>
  void for_each_symbol(const Visit& visit) const {
    const SymbolTable symbols(*this);
    read_ahead(symbols.bytes());
    for (size_t i = 0; i < symbols.count(); ++i)
      if (const Elf64_Sym symbol = symbols.at(i); symbol.st_shndx != SHN_UNDEF) visit(symbol, symbols.name_of(symbol));
  }

 private:
  static void read_ahead(binary::View bytes);
};

}  // namespace devtrace::elf

// The sections of an object in bytes at hand, a file's or a cubin's, and its own table of symbols (.symtab). What is
// damaged is not there.
#pragma once

#include <elf.h>

#include <cstddef>
#include <string_view>

#include "binary/view.h"

namespace devtrace::elf {

class Sections {
 public:
  // What is no 64-bit object has none.
  explicit Sections(binary::View object);

  // Zero in what is no 64-bit object.
  const Elf64_Ehdr& header() const { return header_; }
  binary::View object() const { return object_; }

  size_t count() const { return count_; }
  Elf64_Shdr at(size_t index) const;  // zero behind the last
  const char* name_of(const Elf64_Shdr& section) const { return names_.name(section.sh_name); }
  // Empty where it has none, or they do not lie in the object.
  binary::View bytes_of(const Elf64_Shdr& section) const;

  std::string_view bytes_of(std::string_view name) const { return bytes_of(find(name)).text(); }
  bool has(std::string_view name) const { return find(name).sh_name != 0; }

  // visit(const Elf64_Shdr&, const char* name)
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (size_t i = 0; i < count_; ++i) {
      const Elf64_Shdr section = at(i);
      visit(section, name_of(section));
    }
  }

 private:
  Elf64_Shdr find(std::string_view name) const;

  binary::View object_, names_;
  Elf64_Ehdr header_ = {};
  size_t count_ = 0;
};

// An object has one at most.
class SymbolTable {
 public:
  explicit SymbolTable(const Sections& sections);

  binary::View bytes() const { return symbols_; }
  size_t count() const { return symbols_.size / sizeof(Elf64_Sym); }
  Elf64_Sym at(size_t index) const {  // zero behind the last
    Elf64_Sym symbol = {};
    symbols_.read(index * sizeof symbol, symbol);
    return symbol;
  }
  const char* name_of(const Elf64_Sym& symbol) const { return names_.name(symbol.st_name); }

 private:
  binary::View symbols_, names_;
};

}  // namespace devtrace::elf

// The relocations of a loaded object that bind a slot to a function of another one, as the loader reads them.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#include "tracker/elf/loaded_objects.h"

namespace devtrace::interpose {

class ImportRelocations {
 public:
  explicit ImportRelocations(const elf::Object& object);

  // visit(the slot's address, the function's name, its index for version_of)
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Table& table : tables_)
      for (size_t i = 0; i < table.count; ++i) {
        const ElfW(Rela)& one = table.first[i];
        const auto type = ELF64_R_TYPE(one.r_info);
        const size_t symbol = ELF64_R_SYM(one.r_info);
        if (symbol == 0 ||
            !(type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || (type == R_X86_64_64 && one.r_addend == 0)))
          continue;
        visit(base_ + one.r_offset, names_ + symbols_[symbol].st_name, symbol);
      }
  }

  // The version that the reference names; null: none.
  const char* version_of(size_t symbol) const;

 private:
  struct Table {
    const ElfW(Rela) * first = nullptr;
    size_t count = 0;
  };
  ElfW(Addr) base_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  const ElfW(Versym) * versions_ = nullptr;
  const ElfW(Verneed) * needed_ = nullptr;
  Table tables_[2];
};

}  // namespace devtrace::interpose

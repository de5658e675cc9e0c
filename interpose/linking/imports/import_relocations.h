// The relocations of a loaded object that bind a slot to a function of another one, as the loader reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "binary/elf/loaded.h"

namespace devtrace::interpose {

class ImportRelocations {
 public:
  explicit ImportRelocations(const elf::Object& object) : section_(object) {
    const auto table = [&](int64_t begin, int64_t bytes) {
      return Table{section_.address(begin), section_.address(begin) ? section_.value(bytes) / sizeof(Elf64_Rela) : 0};
    };
    const auto kind = section_.value(DT_PLTREL);
    if (kind == 0 || kind == DT_RELA) tables_[0] = table(DT_JMPREL, DT_PLTRELSZ);
    tables_[1] = table(DT_RELA, DT_RELASZ);
  }

  // visit(the slot's address, the function's name, its index for version_of)
  template <class Visit>
  void for_each(const Visit& visit) const {
    Elf64_Rela one;
    for (const Table& table : tables_)
      for (size_t i = 0; i < table.count && section_.memory().read(table.at + i * sizeof one, one); ++i) {
        const size_t symbol = ELF64_R_SYM(one.r_info);
        const uintptr_t slot = section_.base() + one.r_offset;
        if (symbol != 0 && binds_a_slot(one) && slot % sizeof(uintptr_t) == 0 &&
            section_.memory().holds(slot, sizeof slot))
          visit(slot, section_.name_of(symbol), symbol);
      }
  }

  // The version that the reference names; null: none.
  const char* version_of(size_t symbol) const { return section_.needed_version(symbol); }

 private:
  static bool binds_a_slot(const Elf64_Rela& one) {
#ifdef __x86_64__
    constexpr auto kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT, kAddress = R_X86_64_64;
#else
    constexpr auto kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT, kAddress = R_AARCH64_ABS64;
#endif
    const auto type = ELF64_R_TYPE(one.r_info);
    return type == kJumpSlot || type == kGlobalData || (type == kAddress && one.r_addend == 0);
  }

  struct Table {
    uintptr_t at;
    size_t count;
  };

  elf::Loaded section_;
  Table tables_[2] = {};
};

}  // namespace devtrace::interpose

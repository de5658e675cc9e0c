// The relocations of a loaded object that bind a slot to a function of another one, as the loader reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "binary/elf/dynamic_section.h"

namespace devtrace::interpose {

class ImportRelocations {
 public:
  explicit ImportRelocations(const elf::Object& object);

  // visit(the slot's address, the function's name, its index for version_of)
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& table : tables_)
      for (size_t i = 0; i < table.count; ++i) {
        const ElfW(Rela)& one = table.first[i];
        const size_t symbol = ELF64_R_SYM(one.r_info);
        const uintptr_t slot = base_ + one.r_offset;
        if (symbol != 0 && binds_a_slot(one) && slot % sizeof(uintptr_t) == 0 && section_.holds(slot, sizeof slot))
          visit(slot, section_.name_of(symbol), symbol);
      }
  }

  // The version that the reference names; null: none.
  const char* version_of(size_t symbol) const { return section_.needed_version(symbol); }

 private:
  static bool binds_a_slot(const ElfW(Rela) & one) {
#ifdef __x86_64__
    constexpr auto kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT, kAddress = R_X86_64_64;
#else
    constexpr auto kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT, kAddress = R_AARCH64_ABS64;
#endif
    const auto type = ELF64_R_TYPE(one.r_info);
    return type == kJumpSlot || type == kGlobalData || (type == kAddress && one.r_addend == 0);
  }

  uintptr_t base_;
  elf::DynamicSection section_;
  elf::Table<ElfW(Rela)> tables_[2];
};

}  // namespace devtrace::interpose

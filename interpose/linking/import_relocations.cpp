#include "interpose/linking/import_relocations.h"

namespace devtrace::interpose {

// glibc makes the addresses in the dynamic section absolute; not every loader does, and the kernel's own object has
// none.
ImportRelocations::ImportRelocations(const elf::Object& object) : base_(object.base) {
  if (!object.dynamic) return;
  size_t jump_bytes = 0, bytes = 0;
  bool with_addends = true;
  for (const ElfW(Dyn)* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) value = entry->d_un.d_ptr;
    const auto address = reinterpret_cast<const void*>(value < base_ ? base_ + value : value);
    if (entry->d_tag == DT_SYMTAB) symbols_ = static_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) names_ = static_cast<const char*>(address);
    if (entry->d_tag == DT_VERSYM) versions_ = static_cast<const ElfW(Versym)*>(address);
    if (entry->d_tag == DT_VERNEED) needed_ = static_cast<const ElfW(Verneed)*>(address);
    if (entry->d_tag == DT_JMPREL) tables_[0].first = static_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_RELA) tables_[1].first = static_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) jump_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_RELASZ) bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_PLTREL) with_addends = entry->d_un.d_val == DT_RELA;
  }
  if (!symbols_ || !names_) return;
  if (tables_[0].first && with_addends) tables_[0].count = jump_bytes / sizeof(ElfW(Rela));
  if (tables_[1].first) tables_[1].count = bytes / sizeof(ElfW(Rela));
}

const char* ImportRelocations::version_of(size_t symbol) const {
  constexpr ElfW(Versym) kHidden = 0x8000;
  if (!versions_) return nullptr;
  const auto number = static_cast<ElfW(Half)>(versions_[symbol] & ~kHidden);
  if (number <= VER_NDX_GLOBAL) return nullptr;
  const auto behind = [](const void* start, size_t bytes) { return static_cast<const char*>(start) + bytes; };
  for (const ElfW(Verneed)* library = needed_; library;
       library = library->vn_next ? reinterpret_cast<const ElfW(Verneed)*>(behind(library, library->vn_next)) : nullptr)
    for (const auto* one = reinterpret_cast<const ElfW(Vernaux)*>(behind(library, library->vn_aux)); one;
         one = one->vna_next ? reinterpret_cast<const ElfW(Vernaux)*>(behind(one, one->vna_next)) : nullptr)
      if (one->vna_other == number) return names_ + one->vna_name;
  return nullptr;
}

}  // namespace devtrace::interpose

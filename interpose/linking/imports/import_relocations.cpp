#include "interpose/linking/imports/import_relocations.h"

namespace devtrace::interpose {

ImportRelocations::ImportRelocations(const elf::Object& object) : section_(object) {
  const auto table = [&](int64_t begin, int64_t bytes) {
    return Table{section_.address(begin), section_.address(begin) ? section_.value(bytes) / sizeof(Elf64_Rela) : 0};
  };
  const auto kind = section_.value(DT_PLTREL);
  if (kind == 0 || kind == DT_RELA) tables_[0] = table(DT_JMPREL, DT_PLTRELSZ);
  tables_[1] = table(DT_RELA, DT_RELASZ);
}

}  // namespace devtrace::interpose

#include "interpose/linking/imports/import_relocations.h"

#include <algorithm>

namespace devtrace::interpose {

ImportRelocations::ImportRelocations(const elf::Object& object) : base_(object.base), section_(object) {
  const auto take = [&](int64_t table, int64_t bytes) {
    auto taken = section_.table<ElfW(Rela)>(table);
    taken.count = std::min<size_t>(taken.count, section_.value(bytes) / sizeof(ElfW(Rela)));
    return taken;
  };
  const auto kind = section_.value(DT_PLTREL);
  if (kind == 0 || kind == DT_RELA) tables_[0] = take(DT_JMPREL, DT_PLTRELSZ);
  tables_[1] = take(DT_RELA, DT_RELASZ);
}

}  // namespace devtrace::interpose

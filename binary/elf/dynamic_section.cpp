#include "binary/elf/dynamic_section.h"

#include <algorithm>

#include "binary/elf/plain_text.h"

namespace devtrace::elf {
namespace {

constexpr ElfW(Versym) kHidden = 0x8000;  // an older version, kept for programs that were linked to it

// The GNU hash section: number of buckets, first symbol in it, words of the Bloom filter, its shift; then filter,
// buckets, chains. A chain's entries stand side by side, the last one's lowest bit is set.
struct GnuHash {
  uint32_t buckets, first_symbol;
  size_t bucket, chain;  // where they begin, in 32-bit words

  explicit GnuHash(const Table<uint32_t>& section)
      : buckets(section.value(0)),
        first_symbol(section.value(1)),
        bucket(4 + size_t{section.value(2)} * (sizeof(ElfW(Addr)) / sizeof(uint32_t))),
        chain(bucket + buckets) {}
};

uint32_t gnu_hash(const char* name) {
  uint32_t hash = 5381;
  for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

uint32_t sysv_hash(const char* name) {
  uint32_t hash = 0;
  for (; *name; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const uint32_t high = hash & 0xf0000000;
    hash = (hash ^ high >> 24) & ~high;
  }
  return hash;
}

}  // namespace

DynamicSection::DynamicSection(const Object& object) : base_(object.base), begin_(object.begin), end_(object.end) {
  const Table<ElfW(Dyn)> all = table_at<ElfW(Dyn)>(reinterpret_cast<uintptr_t>(object.dynamic));
  entries_.first = all.first;
  while (entries_.count < all.count && all.first[entries_.count].d_tag != DT_NULL) ++entries_.count;
  symbols_ = table<ElfW(Sym)>(DT_SYMTAB);
  names_ = table<char>(DT_STRTAB);
  names_.count = std::min<size_t>(names_.count, value(DT_STRSZ));
  while (names_.count > 0 && names_.first[names_.count - 1] != '\0') --names_.count;
  versions_ = table<ElfW(Versym)>(DT_VERSYM);
  gnu_hash_ = table<uint32_t>(DT_GNU_HASH);
  sysv_hash_ = table<uint32_t>(DT_HASH);
}

ElfW(Xword) DynamicSection::value(int64_t tag) const {
  ElfW(Xword) found = 0;
  for_each_entry(tag, [&](ElfW(Xword) value) { found = value; });
  return found;
}

const char* DynamicSection::name_of(size_t symbol) const {
  const ElfW(Sym)* const found = symbols_.at(symbol);
  return found ? text(found->st_name) : "";
}

// No field says how many symbols there are: the longest-reaching hash chain does.
size_t DynamicSection::count() const {
  if (gnu_hash_.count == 0) return std::min<size_t>(sysv_hash_.value(1), symbols_.count);
  const GnuHash table(gnu_hash_);
  size_t last = 0;
  for (size_t i = table.bucket; i < std::min(table.chain, gnu_hash_.count); ++i)
    last = std::max<size_t>(last, gnu_hash_.first[i]);
  if (last == 0 || last < table.first_symbol) return 0;  // exports nothing
  for (;; ++last) {
    const uint32_t* const entry = gnu_hash_.at(table.chain + last - table.first_symbol);
    if (!entry || *entry & 1) break;
  }
  return std::min(last + 1, symbols_.count);
}

ElfW(Half) DynamicSection::number_of(const char* version) const {
  for (const auto* one = table<ElfW(Verdef)>(DT_VERDEF).at(0); one;
       one = one->vd_next ? behind<ElfW(Verdef)>(one, one->vd_next) : nullptr) {
    const auto* const name = behind<ElfW(Verdaux)>(one, one->vd_aux);
    if (name && !(one->vd_flags & VER_FLG_BASE) && plain_same(text(name->vda_name), version)) return one->vd_ndx;
  }
  return 0;
}

const char* DynamicSection::needed_version(size_t symbol) const {
  const auto number = static_cast<ElfW(Half)>(versions_.value(symbol) & ~kHidden);
  if (number <= VER_NDX_GLOBAL) return nullptr;
  for (const auto* library = table<ElfW(Verneed)>(DT_VERNEED).at(0); library;
       library = library->vn_next ? behind<ElfW(Verneed)>(library, library->vn_next) : nullptr)
    for (const auto* one = behind<ElfW(Vernaux)>(library, library->vn_aux); one;
         one = one->vna_next ? behind<ElfW(Vernaux)>(one, one->vna_next) : nullptr)
      if (one->vna_other == number) return text(one->vna_name);
  return nullptr;
}

// Whether the symbol at an index is the one, in its default version, or in the one that is wanted.
bool DynamicSection::is(uint32_t index, const char* name, const char* version) const {
  const ElfW(Sym)* const symbol = symbols_.at(index);
  if (!symbol || symbol->st_shndx == SHN_UNDEF || !plain_same(text(symbol->st_name), name)) return false;
  if (versions_.count == 0) return true;
  const ElfW(Versym) own = versions_.value(index);
  if (!version) return !(own & kHidden);
  return own <= VER_NDX_GLOBAL || (own & ~kHidden) == number_of(version);
}

uint32_t DynamicSection::find_by_gnu_hash(const char* name, const char* version) const {
  const GnuHash table(gnu_hash_);
  if (table.buckets == 0) return 0;  // as an object has it that exports nothing
  const uint32_t hash = gnu_hash(name);
  const uint32_t first = gnu_hash_.value(table.bucket + hash % table.buckets);
  if (first == 0 || first < table.first_symbol) return 0;
  for (uint32_t index = first;; ++index) {
    const uint32_t* const entry = gnu_hash_.at(table.chain + index - table.first_symbol);
    if (!entry) return 0;
    if ((*entry | 1) == (hash | 1) && is(index, name, version)) return index;
    if (*entry & 1) return 0;
  }
}

// Buckets' number, chains' number, buckets, chains: each entry is the next symbol's index.
uint32_t DynamicSection::find_by_sysv_hash(const char* name, const char* version) const {
  const size_t buckets = sysv_hash_.value(0);
  if (buckets == 0) return 0;
  const size_t most = std::min<size_t>(sysv_hash_.value(1), sysv_hash_.count);  // a ring ends here
  uint32_t index = sysv_hash_.value(2 + sysv_hash(name) % buckets);
  for (size_t seen = 0; index != 0 && seen < most; ++seen) {
    if (is(index, name, version)) return index;
    index = sysv_hash_.value(2 + buckets + index);
  }
  return 0;
}

const ElfW(Sym) * DynamicSection::symbol(const char* name, const char* version) const {
  const uint32_t index = gnu_hash_.count ? find_by_gnu_hash(name, version) : find_by_sysv_hash(name, version);
  return index == 0 ? nullptr : symbols_.at(index);
}

void* DynamicSection::find(const char* name, const char* version) const {
  const ElfW(Sym)* const found = symbol(name, version);
  if (!found) return nullptr;
  void* const address = reinterpret_cast<void*>(base_ + found->st_value);
  const bool chosen = ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC;
  return chosen ? reinterpret_cast<void* (*)()>(address)() : address;
}

}  // namespace devtrace::elf

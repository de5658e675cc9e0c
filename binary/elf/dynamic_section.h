// The dynamic section of an object that a loader has mapped, and by it the symbols that the object exports. It may be
// in this process (loaded.h), or in another one, whose file may have been replaced, and whose loader is not ours.
//
// Memory is what has read(address, T&), false where nothing is, and same(address, text). Nothing is allocated here, and
// nothing called that anybody could stand before.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "binary/elf/segments.h"

namespace devtrace::elf {

template <class Memory>
class DynamicSection {
 public:
  // `base`: what is added to an address in the file; `section`: where it lies, 0: there is none.
  DynamicSection(const Memory& memory, uintptr_t base, uintptr_t section)
      : memory_(memory), base_(base), section_(section) {
    for_each_entry([&](int64_t tag, uintptr_t value) {
      if (tag == DT_SYMTAB) symbols_ = absolute(value);
      if (tag == DT_STRTAB) names_ = absolute(value);
      if (tag == DT_VERSYM) versions_ = absolute(value);
      if (tag == DT_GNU_HASH) gnu_hash_ = absolute(value);
      if (tag == DT_HASH) sysv_hash_ = absolute(value);
    });
  }

  const Memory& memory() const { return memory_; }
  uintptr_t base() const { return base_; }

  // The function or variable that the object itself defines, not one of its dependencies: in its default version. With
  // `version` in that one, or in a definition without any, as a reference to a version is bound.
  std::optional<Elf64_Sym> symbol(const char* name, const char* version = nullptr) const {
    const uint32_t index = gnu_hash_    ? find_by_gnu_hash(name, version)
                           : sysv_hash_ ? find_by_sysv_hash(name, version)
                                        : 0;
    return index ? symbol_at(index) : std::nullopt;
  }

  // The number of a version that the object defines; 0: it does not.
  Elf64_Half number_of(const char* version) const {
    Elf64_Verdef one;
    Elf64_Verdaux name;
    for (uintptr_t at = address(DT_VERDEF); at && memory_.read(at, one); at = one.vd_next ? at + one.vd_next : 0)
      if (!(one.vd_flags & VER_FLG_BASE) && memory_.read(at + one.vd_aux, name) && is_name(name.vda_name, version))
        return one.vd_ndx;
    return 0;
  }

  // visit(tag, value)
  template <class Visit>
  void for_each_entry(const Visit& visit) const {
    constexpr size_t kMost = 1u << 16;  // of a damaged object; libtorch's are a hundredth
    Elf64_Dyn entry;
    for (uintptr_t at = section_, i = 0; at && i < kMost && memory_.read(at, entry) && entry.d_tag != DT_NULL; ++i) {
      visit(entry.d_tag, entry.d_un.d_val);
      at += sizeof entry;
    }
  }
  // 0: there is no such entry.
  uint64_t value(int64_t tag) const {
    uint64_t found = 0;
    for_each_entry([&](int64_t each, uint64_t value) { found = each == tag ? value : found; });
    return found;
  }
  uintptr_t address(int64_t tag) const { return absolute(value(tag)); }

 protected:
  static constexpr Elf64_Versym kHidden = 0x8000;  // an older version, kept for programs that were linked to it

  std::optional<Elf64_Sym> symbol_at(size_t index) const {
    Elf64_Sym symbol;
    return symbols_ && memory_.read(symbols_ + index * sizeof symbol, symbol) ? std::optional(symbol) : std::nullopt;
  }

  // No field says how many symbols there are: the longest-reaching hash chain does.
  size_t count() const {
    uint32_t number = 0;
    if (!gnu_hash_) return sysv_hash_ && memory_.read(sysv_hash_ + sizeof number, number) ? number : 0;
    GnuHash hash;
    if (!memory_.read(gnu_hash_, hash)) return 0;
    size_t last = 0;
    for (uint32_t i = 0; i < hash.buckets && memory_.read(bucket(hash, i), number); ++i)
      last = number > last ? number : last;
    if (last == 0 || last < hash.first_symbol) return 0;  // exports nothing
    while (memory_.read(chain(hash, last), number) && !(number & 1)) ++last;
    return last + 1;
  }

  Elf64_Versym version_at(size_t index) const {
    Elf64_Versym version = 0;
    memory_.read(versions_ + index * sizeof version, version);
    return version;
  }

 private:
  // Behind it: the words of a Bloom filter, buckets, chains. A chain's entries stand side by side, the last one's
  // lowest bit is set.
  struct GnuHash {
    uint32_t buckets, first_symbol, filter_words, filter_shift;
  };
  uintptr_t bucket(const GnuHash& hash, size_t number) const {
    return gnu_hash_ + sizeof hash + hash.filter_words * sizeof(uint64_t) + number * sizeof(uint32_t);
  }
  uintptr_t chain(const GnuHash& hash, size_t index) const {
    return bucket(hash, hash.buckets) + (index - hash.first_symbol) * sizeof(uint32_t);
  }

  // glibc makes these addresses absolute, but where the section is read-only (the kernel's vDSO); not every loader
  // does.
  uintptr_t absolute(uintptr_t address) const { return address && address < base_ ? base_ + address : address; }
  bool is_name(size_t offset, const char* name) const { return names_ && memory_.same(names_ + offset, name); }

  // Whether the symbol at an index is the one, in its default version, or in the one that is wanted.
  bool is(uint32_t index, const char* name, const char* version) const {
    const std::optional<Elf64_Sym> symbol = symbol_at(index);
    if (!symbol || symbol->st_shndx == SHN_UNDEF || !is_name(symbol->st_name, name)) return false;
    if (!versions_) return true;
    const Elf64_Versym own = version_at(index);
    if (!version) return !(own & kHidden);
    return own <= VER_NDX_GLOBAL || (own & ~kHidden) == number_of(version);
  }

  uint32_t find_by_gnu_hash(const char* name, const char* version) const {
    uint32_t wanted = 5381, index = 0, entry = 0;
    for (const char* at = name; *at; ++at) wanted = wanted * 33 + static_cast<unsigned char>(*at);
    GnuHash hash;
    if (!memory_.read(gnu_hash_, hash) || hash.buckets == 0) return 0;  // as an object has it that exports nothing
    if (!memory_.read(bucket(hash, wanted % hash.buckets), index) || index == 0 || index < hash.first_symbol) return 0;
    for (; memory_.read(chain(hash, index), entry); ++index) {
      if ((entry | 1) == (wanted | 1) && is(index, name, version)) return index;
      if (entry & 1) return 0;
    }
    return 0;
  }

  // Buckets' number, chains' number, buckets, chains: each entry is the next symbol's index.
  uint32_t find_by_sysv_hash(const char* name, const char* version) const {
    uint32_t wanted = 0, numbers[2], index = 0;
    for (const char* at = name; *at; ++at) {
      wanted = (wanted << 4) + static_cast<unsigned char>(*at);
      const uint32_t high = wanted & 0xf0000000;
      wanted = (wanted ^ high >> 24) & ~high;
    }
    if (!memory_.read(sysv_hash_, numbers) || numbers[0] == 0) return 0;
    const uintptr_t buckets = sysv_hash_ + sizeof numbers, chains = buckets + numbers[0] * sizeof index;
    if (!memory_.read(buckets + wanted % numbers[0] * sizeof index, index)) return 0;
    for (uint32_t seen = 0; index != 0 && seen < numbers[1]; ++seen) {  // a ring ends here
      if (is(index, name, version)) return index;
      if (!memory_.read(chains + index * sizeof index, index)) return 0;
    }
    return 0;
  }

  Memory memory_;
  uintptr_t base_, section_;
  uintptr_t symbols_ = 0, names_ = 0, versions_ = 0, gnu_hash_ = 0, sysv_hash_ = 0;
};

// Of the object whose file's beginning is mapped at `start`.
template <class Memory>
DynamicSection<Memory> dynamic_section_at(const Memory& memory, uintptr_t start) {
  std::optional<uintptr_t> base, section;
  for_each_segment(memory, start, [&](const Elf64_Phdr& segment) {
    if (segment.p_type == PT_DYNAMIC) section = segment.p_vaddr;
    if (segment.p_type == PT_LOAD && segment.p_offset == 0 && !base) base = start - segment.p_vaddr;
  });
  return {memory, base.value_or(0), base && section ? *base + *section : 0};
}

}  // namespace devtrace::elf

#include "tracker/elf/dynamic_symbols.h"

#include <algorithm>

namespace devtrace::elf {
namespace {

// The GNU hash section: buckets, symbols not in it, words of the Bloom filter, its shift; then filter, buckets, chains.
struct GnuHash {
  uint32_t buckets;
  uint32_t first_symbol;
  const uint32_t* bucket;
  const uint32_t* chain;  // indexed by symbol number less first_symbol; the lowest bit ends a chain

  explicit GnuHash(const uint32_t* section)
      : buckets(section[0]), first_symbol(section[1]), bucket(section + 4 + 2 * section[2]), chain(bucket + buckets) {}
};

uint32_t gnu_hash(std::string_view name) {
  uint32_t hash = 5381;
  for (unsigned char c : name) hash = hash * 33 + c;
  return hash;
}

uint32_t sysv_hash(std::string_view name) {
  uint32_t hash = 0;
  for (unsigned char c : name) {
    hash = (hash << 4) + c;
    const uint32_t high = hash & 0xf0000000;
    hash = (hash ^ high >> 24) & ~high;
  }
  return hash;
}

}  // namespace

DynamicSymbols::DynamicSymbols(const dl_phdr_info& object) : base_(object.dlpi_addr) {
  const Elf64_Dyn* entry = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const Elf64_Dyn*>(base_ + object.dlpi_phdr[i].p_vaddr);
    }
  }
  if (entry == nullptr) return;
  for (; entry->d_tag != DT_NULL; ++entry) {
    // The loader turns these into addresses in place, except where the section is read-only (the kernel's vDSO).
    const uintptr_t address = entry->d_un.d_ptr < base_ ? base_ + entry->d_un.d_ptr : entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const Elf64_Sym*>(address);
        break;
      case DT_STRTAB:
        strings_ = reinterpret_cast<const char*>(address);
        break;
      case DT_GNU_HASH:
        gnu_hash_ = reinterpret_cast<const uint32_t*>(address);
        break;
      case DT_HASH:
        sysv_hash_ = reinterpret_cast<const uint32_t*>(address);
        break;
    }
  }
  if (symbols_ == nullptr || strings_ == nullptr) gnu_hash_ = sysv_hash_ = nullptr;
}

// No field says how many symbols there are: the longest-reaching hash chain does.
size_t DynamicSymbols::count() const {
  if (gnu_hash_ == nullptr) return sysv_hash_ == nullptr ? 0 : sysv_hash_[1];
  const GnuHash table(gnu_hash_);
  uint32_t last = 0;
  for (uint32_t i = 0; i < table.buckets; ++i) last = std::max(last, table.bucket[i]);
  if (last < table.first_symbol) return 0;  // exports nothing
  while ((table.chain[last - table.first_symbol] & 1) == 0) ++last;
  return last + 1;
}

void* DynamicSymbols::find(std::string_view name) const {
  const auto match = [&](uint32_t number) -> void* {
    const Elf64_Sym& symbol = symbols_[number];
    if (symbol.st_shndx == SHN_UNDEF || name != strings_ + symbol.st_name) return nullptr;
    return reinterpret_cast<void*>(base_ + symbol.st_value);
  };
  if (gnu_hash_ == nullptr && sysv_hash_ == nullptr) return nullptr;
  if (gnu_hash_ != nullptr) {
    const GnuHash table(gnu_hash_);
    const uint32_t hash = gnu_hash(name);
    uint32_t number = table.bucket[hash % table.buckets];
    if (number < table.first_symbol) return nullptr;
    for (;; ++number) {
      const uint32_t entry = table.chain[number - table.first_symbol];
      if ((entry | 1) == (hash | 1)) {
        if (void* found = match(number)) return found;
      }
      if (entry & 1) return nullptr;
    }
  }
  const uint32_t buckets = sysv_hash_[0];
  for (uint32_t number = sysv_hash_[2 + sysv_hash(name) % buckets]; number != 0;
       number = sysv_hash_[2 + buckets + number]) {
    if (void* found = match(number)) return found;
  }
  return nullptr;
}

}  // namespace devtrace::elf

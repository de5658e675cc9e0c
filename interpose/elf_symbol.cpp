#include "interpose/elf_symbol.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace devtrace::interpose {
namespace {

// The tables of a loaded library. glibc makes the addresses in the dynamic section absolute; not every loader does.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Versym) * versions = nullptr;
  const uint32_t* hashes = nullptr;

  const uint32_t* old_hashes = nullptr;  // DT_HASH, where there is no DT_GNU_HASH

  Tables(const ElfW(Dyn) * entry, ElfW(Addr) base) {
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr;
      const auto address = reinterpret_cast<const void*>(value < base ? base + value : value);
      if (entry->d_tag == DT_SYMTAB) symbols = static_cast<const ElfW(Sym)*>(address);
      if (entry->d_tag == DT_STRTAB) names = static_cast<const char*>(address);
      if (entry->d_tag == DT_VERSYM) versions = static_cast<const ElfW(Versym)*>(address);
      if (entry->d_tag == DT_GNU_HASH) hashes = static_cast<const uint32_t*>(address);
      if (entry->d_tag == DT_HASH) old_hashes = static_cast<const uint32_t*>(address);
    }
  }
  bool complete() const { return symbols && names && (hashes || old_hashes); }

  // Whether the symbol at an index is the one, in its default version.
  bool is(uint32_t index, const char* name) const {
    constexpr ElfW(Versym) kHidden = 0x8000;  // an older version, kept for programs that were linked to it
    return symbols[index].st_shndx != SHN_UNDEF && std::strcmp(names + symbols[index].st_name, name) == 0 &&
           !(versions && versions[index] & kHidden);
  }
};

uint32_t hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// The symbol's index; 0, which is no symbol's, when there is none.
uint32_t find(const Tables& tables, const char* name) {
  if (!tables.hashes) {
    for (uint32_t index = 1; index < tables.old_hashes[1]; ++index)
      if (tables.is(index, name)) return index;
    return 0;
  }
  // Bucket count, first symbol, words of the filter, its shift; filter, buckets, chains.
  const uint32_t buckets = tables.hashes[0];
  const uint32_t first = tables.hashes[1];
  const uint32_t* const bucket = tables.hashes + 4 + tables.hashes[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const chain = bucket + buckets;
  const uint32_t hash = hash_of(name);
  uint32_t index = buckets ? bucket[hash % buckets] : 0;
  for (bool last = index < first; !last; ++index) {
    const uint32_t candidate = chain[index - first];
    last = candidate & 1;
    if ((candidate | 1) == (hash | 1) && tables.is(index, name)) return index;
  }
  return 0;
}

struct Search {
  const char* library;
  const char* symbol;
  void* found;
};

int look_in(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  const char* const name = file_name(*info);
  if (!name || std::strcmp(name, search.library) != 0) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const Tables tables(reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                        info->dlpi_addr);
    const uint32_t index = tables.complete() ? find(tables, search.symbol) : 0;
    if (index != 0) search.found = reinterpret_cast<void*>(info->dlpi_addr + tables.symbols[index].st_value);
  }
  return search.found != nullptr;
}

}  // namespace

const char* file_name(const dl_phdr_info& object) {
  const char* const slash = object.dlpi_name ? std::strrchr(object.dlpi_name, '/') : nullptr;
  return slash ? slash + 1 : object.dlpi_name;
}

void* elf_symbol(const char* library, const char* symbol) {
  Search search{library, symbol, nullptr};
  ::dl_iterate_phdr(look_in, &search);
  return search.found;
}

}  // namespace devtrace::interpose

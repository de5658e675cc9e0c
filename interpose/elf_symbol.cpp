#include "interpose/elf_symbol.h"

#include <elf.h>
#include <pthread.h>

#include <atomic>
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

std::atomic<bool> forked{false};
[[gnu::constructor]] void watch_forks() {
  ::pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
}

std::string_view text(const char* path) {
  return path ? path : "";
}

struct Show {
  bool (*look)(const Object&, void*);
  void* data;
};

int show(dl_phdr_info* info, size_t, void* data) {
  const Show& show = *static_cast<Show*>(data);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  return show.look({text(info->dlpi_name), info->dlpi_addr, dynamic}, show.data);
}

}  // namespace

bool Object::is_this_library() const {
  return dynamic == _DYNAMIC;  // every object has its own of that name
}

void for_each_object(bool (*look)(const Object&, void* data), void* data) {
  if (!forked.load(std::memory_order_relaxed)) {
    Show to{look, data};
    ::dl_iterate_phdr(show, &to);
    return;
  }
  for (const link_map* one = _r_debug.r_map; one; one = one->l_next)
    if (look({text(one->l_name), one->l_addr, one->l_ld}, data)) return;
}

void* elf_symbol(const Object& object, const char* symbol) {
  if (!object.dynamic) return nullptr;
  const Tables tables(object.dynamic, object.base);
  const uint32_t index = tables.complete() ? find(tables, symbol) : 0;
  if (index == 0) return nullptr;
  void* const address = reinterpret_cast<void*>(object.base + tables.symbols[index].st_value);
  // A function that is chosen for the processor: what stands in the table chooses it.
  const bool chosen = ELF64_ST_TYPE(tables.symbols[index].st_info) == STT_GNU_IFUNC;
  return chosen ? reinterpret_cast<void* (*)()>(address)() : address;
}

void* elf_symbol(std::string_view file, const char* symbol) {
  void* found = nullptr;
  for_each_object([&](const Object& object) {
    if (object.file() == file) found = elf_symbol(object, symbol);
    return found != nullptr;
  });
  return found;
}

}  // namespace devtrace::interpose

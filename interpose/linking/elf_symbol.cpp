#include "interpose/linking/elf_symbol.h"

#include <elf.h>

#include <cstdint>

#include "tracker/elf/plain_text.h"

namespace devtrace::interpose {
namespace {

// The tables of a loaded library. glibc makes the addresses in the dynamic section absolute; not every loader does.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Versym) * versions = nullptr;
  const uint32_t* hashes = nullptr;

  const uint32_t* old_hashes = nullptr;        // DT_HASH, where there is no DT_GNU_HASH
  const ElfW(Verdef) * definitions = nullptr;  // of versions

  Tables(const ElfW(Dyn) * entry, ElfW(Addr) base) {
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr;
      const auto address = reinterpret_cast<const void*>(value < base ? base + value : value);
      if (entry->d_tag == DT_SYMTAB) symbols = static_cast<const ElfW(Sym)*>(address);
      if (entry->d_tag == DT_STRTAB) names = static_cast<const char*>(address);
      if (entry->d_tag == DT_VERSYM) versions = static_cast<const ElfW(Versym)*>(address);
      if (entry->d_tag == DT_GNU_HASH) hashes = static_cast<const uint32_t*>(address);
      if (entry->d_tag == DT_HASH) old_hashes = static_cast<const uint32_t*>(address);
      if (entry->d_tag == DT_VERDEF) definitions = static_cast<const ElfW(Verdef)*>(address);
    }
  }
  bool complete() const { return symbols && names && (hashes || old_hashes); }

  // The number of a version that the object defines; 0: it does not.
  ElfW(Half) number_of(const char* version) const {
    for (const ElfW(Verdef)* one = definitions; one && names;
         one = one->vd_next ? behind<ElfW(Verdef)>(one, one->vd_next) : nullptr) {
      const auto* const name = behind<ElfW(Verdaux)>(one, one->vd_aux);
      if (!(one->vd_flags & VER_FLG_BASE) && elf::plain_same(names + name->vda_name, version)) return one->vd_ndx;
    }
    return 0;
  }

  // Whether the symbol at an index is the one, in its default version, or in the one that is wanted.
  bool is(uint32_t index, const char* name, const char* version) const {
    constexpr ElfW(Versym) kHidden = 0x8000;  // an older version, kept for programs that were linked to it
    if (symbols[index].st_shndx == SHN_UNDEF || !elf::plain_same(names + symbols[index].st_name, name)) return false;
    if (!versions) return true;
    if (!version) return !(versions[index] & kHidden);
    return versions[index] <= VER_NDX_GLOBAL || (versions[index] & ~kHidden) == number_of(version);
  }

 private:
  template <class T>
  static const T* behind(const void* start, size_t bytes) {
    return reinterpret_cast<const T*>(static_cast<const char*>(start) + bytes);
  }
};

uint32_t hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// The symbol's index; 0, which is no symbol's, when there is none.
uint32_t find(const Tables& tables, const char* name, const char* version) {
  if (!tables.hashes) {
    for (uint32_t index = 1; index < tables.old_hashes[1]; ++index)
      if (tables.is(index, name, version)) return index;
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
    if ((candidate | 1) == (hash | 1) && tables.is(index, name, version)) return index;
  }
  return 0;
}

}  // namespace

void* elf_symbol(const elf::Object& object, const char* symbol) {
  return elf_symbol(object, symbol, nullptr);
}

void* elf_symbol(const elf::Object& object, const char* symbol, const char* version) {
  if (!object.dynamic) return nullptr;
  const Tables tables(object.dynamic, object.base);
  const uint32_t index = tables.complete() ? find(tables, symbol, version) : 0;
  if (index == 0) return nullptr;
  void* const address = reinterpret_cast<void*>(object.base + tables.symbols[index].st_value);
  // A function that is chosen for the processor: what stands in the table chooses it.
  const bool chosen = ELF64_ST_TYPE(tables.symbols[index].st_info) == STT_GNU_IFUNC;
  return chosen ? reinterpret_cast<void* (*)()>(address)() : address;
}

bool defines_version(const elf::Object& object, const char* version) {
  return object.dynamic && Tables(object.dynamic, object.base).number_of(version) != 0;
}

std::string_view soname(const elf::Object& object) {
  const char* const names = object.dynamic ? Tables(object.dynamic, object.base).names : nullptr;
  if (!names) return {};
  for (const ElfW(Dyn)* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_SONAME) return elf::plain_view(names + entry->d_un.d_val);
  return {};
}

// Asked in a constructor, before whoever stands in front of memcmp is ready.
bool is_named(const elf::Object& object, std::string_view name) {
  return elf::plain_compare(soname(object), name) == 0 || elf::plain_compare(object.file(), name) == 0 ||
         elf::plain_compare(object.path, name) == 0;
}

void for_each_needed(const elf::Object& object, void (*visit)(const char* name, void* data), void* data) {
  const char* const names = object.dynamic ? Tables(object.dynamic, object.base).names : nullptr;
  if (!names) return;
  for (const ElfW(Dyn)* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_NEEDED) visit(names + entry->d_un.d_val, data);
}

void* elf_symbol(std::string_view file, const char* symbol) {
  for (const link_map* one = _r_debug.r_map; one; one = one->l_next) {
    const elf::Object object = elf::object_of(*one);
    if (elf::plain_compare(object.file(), file) != 0) continue;
    if (void* const found = elf_symbol(object, symbol)) return found;
  }
  return nullptr;
}

}  // namespace devtrace::interpose

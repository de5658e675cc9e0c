#include "attach/process/remote_object.h"

#include <cstring>
#include <map>

namespace devtrace::attach {
namespace {

constexpr size_t kMostDynamic = 1u << 20;  // bytes of a dynamic section; libtorch's are a hundredth

uint32_t hash_of(std::string_view name) {
  uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

}  // namespace

RemoteObject::RemoteObject(const RemoteMemory& memory, uintptr_t start) : memory_(memory) {
  Elf64_Ehdr header{};
  if (!memory.read(start, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!memory.read(start + header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr))) return;
  const Elf64_Phdr* dynamic = nullptr;
  bool based = false;
  for (const Elf64_Phdr& each : segments) {
    if (each.p_type == PT_DYNAMIC) dynamic = &each;
    if (each.p_type == PT_LOAD && !based && each.p_offset == 0) {
      base_ = start - each.p_vaddr;
      based = true;
    }
  }
  if (!dynamic || !based || dynamic->p_memsz > kMostDynamic) return;
  std::vector<Elf64_Dyn> entries(dynamic->p_memsz / sizeof(Elf64_Dyn));
  if (!memory.read(base_ + dynamic->p_vaddr, entries.data(), entries.size() * sizeof(Elf64_Dyn))) return;
  for (const Elf64_Dyn& entry : entries) {
    const uintptr_t value = entry.d_un.d_ptr < base_ ? base_ + entry.d_un.d_ptr : entry.d_un.d_ptr;
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) symbols_ = value;
    if (entry.d_tag == DT_STRTAB) names_ = value;
    if (entry.d_tag == DT_VERSYM) versions_ = value;
    if (entry.d_tag == DT_GNU_HASH) hashes_ = value;
  }
}

bool RemoteObject::is(uint32_t index, std::string_view name, Elf64_Sym& symbol) const {
  constexpr Elf64_Versym kHidden = 0x8000;
  Elf64_Versym version = 0;
  return memory_.read(symbols_ + index * sizeof symbol, symbol) && symbol.st_shndx != SHN_UNDEF &&
         memory_.text(names_ + symbol.st_name, name.size() + 1) == name &&
         (!versions_ || (memory_.read(versions_ + index * sizeof version, version) && !(version & kHidden)));
}

Range RemoteObject::symbol(std::string_view name) const {
  if (!symbols_ || !names_ || !hashes_) return {};
  // Bucket count, first symbol, words of the filter, its shift; filter, buckets, chains.
  uint32_t head[4];
  if (!memory_.read(hashes_, head) || head[0] == 0) return {};
  const uintptr_t buckets = hashes_ + sizeof head + head[2] * sizeof(uint64_t);
  const uintptr_t chains = buckets + head[0] * sizeof(uint32_t);
  const uint32_t hash = hash_of(name);
  uint32_t index = 0;
  if (!memory_.read(buckets + hash % head[0] * sizeof index, index)) return {};
  for (uint32_t chain = 0; index >= head[1] && !(chain & 1); ++index) {
    if (!memory_.read(chains + (index - head[1]) * sizeof chain, chain)) return {};
    Elf64_Sym symbol{};
    if ((chain | 1) != (hash | 1) || !is(index, name, symbol)) continue;
    if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) return {};
    return {base_ + symbol.st_value, base_ + symbol.st_value + symbol.st_size};
  }
  return {};
}

std::vector<LoadedObject> loaded_objects(const std::vector<Mapping>& mappings) {
  // A file may be mapped besides, only to be read, as who looks symbols up does: the beginning that belongs to the code
  // is the last one below it.
  std::map<std::string, LoadedObject> by_path;
  std::map<std::string, uintptr_t> beginnings;
  for (const Mapping& each : mappings) {
    if (each.path.empty() || (each.path[0] != '/' && each.path != "[vdso]")) continue;
    LoadedObject& object = by_path[each.path];
    object.path = each.path;
    if (each.offset == 0) beginnings[each.path] = each.begin;
    if (!each.executable) continue;
    if (object.start == 0) object.start = beginnings[each.path];
    object.code.push_back({each.begin, each.end});
  }
  std::vector<LoadedObject> found;
  for (auto& [path, object] : by_path)
    if (object.start != 0 && !object.code.empty()) found.push_back(std::move(object));
  return found;
}

}  // namespace devtrace::attach

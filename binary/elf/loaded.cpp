#include "binary/elf/loaded.h"

#include "binary/elf/plain_text.h"

namespace devtrace::elf {

Loaded::Loaded(const Object& object)
    : DynamicSection(OwnMemory(object.begin, object.end), object.base, reinterpret_cast<uintptr_t>(object.dynamic)),
      object_(object),
      names_(memory().part(address(DT_STRTAB), value(DT_STRSZ)).names()) {}

void* Loaded::find(const char* name, const char* version) const {
  const auto found = symbol(name, version);
  if (!found) return nullptr;
  void* const address = reinterpret_cast<void*>(base() + found->st_value);
  const bool chosen = ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC;
  return chosen ? reinterpret_cast<void* (*)()>(address)() : address;
}

const char* Loaded::name_of(size_t symbol) const {
  const auto found = symbol_at(symbol);
  return found ? names_.name(found->st_name) : "";
}

const char* Loaded::needed_version(size_t symbol) const {
  const Elf64_Half number = version_at(symbol) & ~kHidden;
  if (number <= VER_NDX_GLOBAL) return nullptr;
  Elf64_Verneed library;
  Elf64_Vernaux one;
  for (uintptr_t at = address(DT_VERNEED); at && memory().read(at, library);
       at = library.vn_next ? at + library.vn_next : 0)
    for (uintptr_t each = at + library.vn_aux; each && memory().read(each, one);
         each = one.vna_next ? each + one.vna_next : 0)
      if (one.vna_other == number) return names_.name(one.vna_name);
  return nullptr;
}

std::string_view Loaded::soname() const {
  const auto offset = value(DT_SONAME);
  return offset ? plain_view(names_.name(offset)) : std::string_view();
}

bool Loaded::is_named(std::string_view name) const {
  return plain_compare(soname(), name) == 0 || plain_compare(object_.file(), name) == 0 ||
         plain_compare(object_.path, name) == 0;
}

void* find_in_file(std::string_view file, const char* symbol) {
  for (const link_map* one = _r_debug.r_map; one; one = one->l_next) {
    const Object object = object_of(*one);
    if (plain_compare(object.file(), file) != 0) continue;
    if (void* const found = Loaded(object).find(symbol)) return found;
  }
  return nullptr;
}

}  // namespace devtrace::elf

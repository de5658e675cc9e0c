#include "interpose/linking/elf_symbol.h"

#include "binary/elf/dynamic_section.h"
#include "binary/elf/plain_text.h"

namespace devtrace::interpose {
void* elf_symbol(const elf::Object& object, const char* symbol) {
  return elf::DynamicSection(object).find(symbol);
}

void* elf_symbol(const elf::Object& object, const char* symbol, const char* version) {
  return elf::DynamicSection(object).find(symbol, version);
}

bool defines_version(const elf::Object& object, const char* version) {
  return elf::DynamicSection(object).number_of(version) != 0;
}

std::string_view soname(const elf::Object& object) {
  const elf::DynamicSection section(object);
  const auto offset = section.value(DT_SONAME);
  return offset ? elf::plain_view(section.text(offset)) : std::string_view();
}

// Asked in a constructor, before whoever stands in front of memcmp is ready.
bool is_named(const elf::Object& object, std::string_view name) {
  return elf::plain_compare(soname(object), name) == 0 || elf::plain_compare(object.file(), name) == 0 ||
         elf::plain_compare(object.path, name) == 0;
}

void for_each_needed(const elf::Object& object, void (*visit)(const char* name, void* data), void* data) {
  const elf::DynamicSection section(object);
  section.for_each_entry(DT_NEEDED, [&](size_t offset) { visit(section.text(offset), data); });
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

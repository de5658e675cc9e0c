#include "binary/elf/sections.h"

#include "binary/elf/segments.h"

namespace devtrace::elf {

Sections::Sections(binary::View object) : object_(object) {
  Elf64_Ehdr header;
  if (!read_header(object, 0, header)) return;
  header_ = header;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum ||
      !object.holds(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)))
    return;
  count_ = header.e_shnum;
  names_ = bytes_of(at(header.e_shstrndx)).names();
}

Elf64_Shdr Sections::at(size_t index) const {
  Elf64_Shdr section = {};
  if (index < count_) object_.read(header_.e_shoff + index * sizeof section, section);
  return section;
}

binary::View Sections::bytes_of(const Elf64_Shdr& section) const {
  return section.sh_type == SHT_NOBITS ? binary::View{} : object_.part(section.sh_offset, section.sh_size);
}

Elf64_Shdr Sections::find(std::string_view name) const {
  for (size_t i = 0; i < count_; ++i)
    if (const Elf64_Shdr section = at(i); name == name_of(section)) return section;
  return {};
}

SymbolTable::SymbolTable(const Sections& sections) {
  for (size_t i = 0; i < sections.count(); ++i) {
    const Elf64_Shdr section = sections.at(i);
    if (section.sh_type != SHT_SYMTAB) continue;
    symbols_ = sections.bytes_of(section);
    names_ = sections.bytes_of(sections.at(section.sh_link)).names();
    return;
  }
}

}  // namespace devtrace::elf

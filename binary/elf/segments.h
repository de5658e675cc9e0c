// The head and the segments of an object, where its file or the beginning of it lies: in bytes at hand, or in another
// process. A source is what has read(place, T&), false where nothing is.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>

namespace devtrace::elf {

// Of a 64-bit object only.
template <class Source>
bool read_header(const Source& source, size_t start, Elf64_Ehdr& header) {
  return source.read(start, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64;
}

template <class Source, class Visit>
void for_each_segment(const Source& source, size_t start, const Visit& visit) {
  Elf64_Ehdr header;
  if (!read_header(source, start, header) || header.e_phentsize != sizeof(Elf64_Phdr)) return;
  Elf64_Phdr segment;
  for (size_t i = 0; i < header.e_phnum && source.read(start + header.e_phoff + i * sizeof segment, segment); ++i)
    visit(segment);
}

}  // namespace devtrace::elf

// A loaded object's function, looked up in its own table of symbols: how dlsym and dlvsym themselves are found, both of
// which this library replaces, and every original. dlsym would do neither: it keeps one error a thread, which the
// program may not have read yet, and allocates.
#pragma once

#include <string_view>

#include "binary/elf/loaded_objects.h"

namespace devtrace::interpose {

// The default version of a function (or a variable) that the object itself exports, not one of its dependencies'; null
// when it has none. Allocates nothing and calls nothing that anybody could stand before.
void* elf_symbol(const elf::Object& object, const char* symbol);

// As a reference to a version of it is bound: to that version, or to a definition without one; null: neither.
void* elf_symbol(const elf::Object& object, const char* symbol, const char* version);

// Whether the object has definitions of that version.
bool defines_version(const elf::Object& object, const char* version);

// What other objects call it when they need it; empty when nothing is said.
std::string_view soname(const elf::Object& object);

// Whether that is what another object means which needs `name`.
bool is_named(const elf::Object& object, std::string_view name);

// The names of what the object needs, in its order.
void for_each_needed(const elf::Object& object, void (*visit)(const char* name, void* data), void* data);
template <class Visit>
void for_each_needed(const elf::Object& object, const Visit& visit) {
  for_each_needed(
      object, [](const char* name, void* data) { (*static_cast<const Visit*>(data))(name); },
      const_cast<Visit*>(&visit));
}

// The same of the first loaded object with that file name; null when none is loaded or has it. Takes no lock, and does
// not call dl_iterate_phdr, of which the program may have its own, which looks the next up with dlsym: for what stays,
// as the C library does.
void* elf_symbol(std::string_view file, const char* symbol);

}  // namespace devtrace::interpose

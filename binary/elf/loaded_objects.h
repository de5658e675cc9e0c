// The objects that the loader has loaded: the program, its libraries, what was opened since.
//
// In a child of a fork the loader's lock may be held for ever, by a thread that is not in the child. There nothing of
// ours, libunwind and libbacktrace included, waits for it. loaded_objects.cpp stands in dl_iterate_phdr's place for all
// that is linked with it (-Wl,--wrap).
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace devtrace::elf {

// A loaded object, as long as for_each_object shows it.
struct Object {
  std::string_view path;  // of the program itself empty
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;
  // Where it lies; everywhere when only the loader's list was asked, which does not say.
  uintptr_t begin = 0, end = UINTPTR_MAX;
  std::span<const ElfW(Phdr)> segments = {};  // of that list's none

  std::string_view file() const { return path.substr(path.rfind('/') + 1); }  // without the folder
  bool is_this_library() const;
  // From an address to the end of the segment in which it lies; 0: in none.
  size_t bytes_behind(uintptr_t address) const;
};

Object object_of(const link_map& listed);
Object object_of(const dl_phdr_info& shown);  // to a callback of dl_iterate_phdr

// Shows the loaded objects in the order in which they came, which is that of the loader's search, until `look` answers
// true.
template <class Look>
void for_each_object(Look&& look) {
  ::dl_iterate_phdr(
      [](dl_phdr_info* shown, size_t, void* data) -> int { return (*static_cast<Look*>(data))(object_of(*shown)); },
      &look);
}

// A number that changes when an object is loaded.
unsigned long long loaded_objects();

// The same for one that is unloaded; 0 where nobody counts, in a child of a fork.
unsigned long long unloaded_objects();

// The loader's own list of them, each of which stays until `look` has come back: for who must go through it many times.
template <class Look>
void with_objects(Look&& look) {
  for_each_object([&](const Object&) { return look(static_cast<const link_map*>(_r_debug.r_map)), true; });
}

// The loaded object in which an address lies; null: none. Takes no lock from glibc 2.35 on.
const link_map* object_at(const void* address);

}  // namespace devtrace::elf

// A loaded object's function, looked up in its own table of symbols: how dlsym and dlvsym themselves are found, both of
// which this library replaces, and every original. dlsym would do neither: it keeps one error a thread, which the
// program may not have read yet, and allocates.
#pragma once

#include <link.h>

#include <string_view>

namespace devtrace::interpose {

// A loaded object, as long as for_each_object shows it.
struct Object {
  std::string_view path;  // of the program itself empty
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;

  std::string_view file() const { return path.substr(path.rfind('/') + 1); }  // without the folder
  bool is_this_library() const;
};

// Shows the loaded objects in the order in which they came, which is that of the loader's search, until `look` answers
// true. In a child of a fork it takes no lock: the loader's may have been held by a thread that is not in the child,
// and then dl_iterate_phdr would wait for ever.
void for_each_object(bool (*look)(const Object&, void* data), void* data);
template <class Look>
void for_each_object(Look&& look) {
  for_each_object([](const Object& object, void* data) { return (*static_cast<Look*>(data))(object); }, &look);
}

// The default version of a function (or a variable) that the object itself exports, not one of its dependencies'; null
// when it has none. Allocates nothing and calls nothing that a hook could stand before.
void* elf_symbol(const Object& object, const char* symbol);

// The same of the first loaded object with that file name; null when none is loaded or has it.
void* elf_symbol(std::string_view file, const char* symbol);

}  // namespace devtrace::interpose

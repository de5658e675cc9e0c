// A loaded object of this process, read where the loader mapped it. Nothing outside the object is read, whatever stands
// in it.
//
// Why not dlsym: it takes the loader's lock, which a thread inside dlopen holds while it runs constructors that may
// wait for a lock our caller holds. It may call malloc; it keeps one error a thread, which the program may not have
// read yet. It does not see objects loaded RTLD_LOCAL; and this library itself intercepts it.
#pragma once

#include <algorithm>
#include <string_view>

#include "binary/elf/dynamic_section.h"
#include "binary/elf/loaded_objects.h"
#include "binary/view.h"

namespace devtrace::elf {

// An object's part of this process's memory, by addresses.
class OwnMemory {
 public:
  OwnMemory(uintptr_t begin, uintptr_t end)
      : begin_(begin), bytes_{reinterpret_cast<const uint8_t*>(begin), end - begin} {}

  bool holds(uintptr_t address, size_t bytes) const { return bytes_.holds(address - begin_, bytes); }
  template <class T>
  bool read(uintptr_t address, T& out) const {
    return bytes_.read(address - begin_, out);
  }
  bool same(uintptr_t address, const char* text) const { return bytes_.same(address - begin_, text); }
  binary::View part(uintptr_t address, size_t most) const {
    return holds(address, 0) ? bytes_.part(address - begin_, std::min(most, bytes_.size - (address - begin_)))
                             : binary::View{};
  }

 private:
  uintptr_t begin_;
  binary::View bytes_;
};

// Valid as long as the object stays loaded.
class Loaded : public DynamicSection<OwnMemory> {
 public:
  explicit Loaded(const Object& object);
  explicit Loaded(const link_map& listed) : Loaded(object_of(listed)) {}
  explicit Loaded(const dl_phdr_info& shown) : Loaded(object_of(shown)) {}

  // The address of what symbol() finds; null: there is none. One that is chosen for the processor (IFUNC) is asked for
  // it, as the loader does.
  void* find(const char* name, const char* version = nullptr) const;

  // visit(const Elf64_Sym&, const char* name) for every symbol that the object defines and exports.
  template <class Visit>
  void for_each(const Visit& visit) const {
    const size_t end = count();
    for (size_t i = 0; i < end; ++i) {
      const auto symbol = symbol_at(i);
      if (!symbol) break;
      if (symbol->st_shndx != SHN_UNDEF) visit(*symbol, names_.name(symbol->st_name));
    }
  }

  // Of a symbol by its index, as relocations have it: its name, and what version of another object it refers to; null:
  // none.
  const char* name_of(size_t symbol) const;
  const char* needed_version(size_t symbol) const;

  // What other objects call it when they need it; empty when nothing is said.
  std::string_view soname() const;
  // Whether that, its path or its file's name is `name`. Asked in a constructor, before whoever stands in front of
  // memcmp is ready.
  bool is_named(std::string_view name) const;
  // visit(const char* name) for what the object needs, in its order.
  template <class Visit>
  void for_each_needed(const Visit& visit) const {
    for_each_entry([&](int64_t tag, uint64_t value) {
      if (tag == DT_NEEDED) visit(names_.name(value));
    });
  }

 private:
  Object object_;
  binary::View names_;
};

// A symbol of the first loaded object with that file name; null when none is loaded or has it. Takes no lock, and does
// not call dl_iterate_phdr: the program may have its own, which looks the next up with dlsym. For what stays, as the C
// library does.
void* find_in_file(std::string_view file, const char* symbol);

}  // namespace devtrace::elf

// The dynamic section of a loaded object, read where the loader mapped it: symbols, their versions, what it needs.
// Nothing outside the object is read, whatever stands in it.
//
// Why not dlsym: it takes the loader's lock, which a thread inside dlopen holds while it runs constructors that may
// wait for a lock our caller holds; it may call malloc; it keeps one error a thread, which the program may not have
// read yet; it does not see objects loaded RTLD_LOCAL; and this library itself intercepts it.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#include "binary/elf/loaded_objects.h"

namespace devtrace::elf {

// So many of them at most are read, and none when they lie outside the object.
template <class T>
struct Table {
  const T* first = nullptr;
  size_t count = 0;

  const T* at(size_t index) const { return index < count ? first + index : nullptr; }
  T value(size_t index) const { return index < count ? first[index] : T{}; }
};

class DynamicSection {
 public:
  // Valid as long as the object stays loaded.
  explicit DynamicSection(const Object& object);

  // The function or variable that the object itself defines, not one of its dependencies: in its default version, or as
  // a reference to a version is bound: to that one, or to a definition without any. nullptr: there is none. Calls
  // nothing that anybody could stand before.
  const ElfW(Sym) * symbol(const char* name, const char* version = nullptr) const;
  // Its address. One that is chosen for the processor (IFUNC) is asked for it, as the loader does.
  void* find(const char* name, const char* version = nullptr) const;

  // Calls visit(const Elf64_Sym&, const char* name) for every symbol that the object defines and exports.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const size_t end = count();
    for (size_t i = 0; i < end; ++i)
      if (const auto* const symbol = symbols_.at(i); symbol && symbol->st_shndx != SHN_UNDEF)
        visit(*symbol, text(symbol->st_name));
  }

  // The number of a version that the object defines; 0: it does not.
  ElfW(Half) number_of(const char* version) const;

  // What a number stands for among the versions of other objects that this one refers to; nullptr: none.
  const char* needed_version(size_t symbol) const;

  // Of the table of names; "" outside it.
  const char* text(size_t offset) const { return offset < names_.count ? names_.first + offset : ""; }
  const char* name_of(size_t symbol) const;

  // visit(value) for each entry of that tag (DT_…).
  template <class Visit>
  void for_each_entry(int64_t tag, const Visit& visit) const {
    for (size_t i = 0; i < entries_.count; ++i)
      if (entries_.first[i].d_tag == tag) visit(entries_.first[i].d_un.d_val);
  }
  ElfW(Xword) value(int64_t tag) const;

  // What an entry leads to; empty: there is none, or it does not lie in the object as it should.
  template <class T>
  Table<T> table(int64_t tag) const {
    // glibc makes these addresses absolute, but where the section is read-only (the kernel's vDSO); not every loader
    // does.
    const uintptr_t address = value(tag);
    return address == 0 ? Table<T>() : table_at<T>(address < base_ ? base_ + address : address);
  }

  // Whether so many bytes lie in the object.
  bool holds(uintptr_t address, size_t bytes) const {
    return address >= begin_ && address <= end_ && bytes <= end_ - address;
  }

 private:
  template <class T>
  Table<T> table_at(uintptr_t address) const {
    if (address == 0 || !holds(address, sizeof(T)) || address % alignof(T) != 0) return {};
    return {reinterpret_cast<const T*>(address), (end_ - address) / sizeof(T)};
  }
  template <class T>
  const T* behind(const void* start, size_t bytes) const {
    return table_at<T>(reinterpret_cast<uintptr_t>(start) + bytes).at(0);
  }
  size_t count() const;
  bool is(uint32_t index, const char* name, const char* version) const;
  uint32_t find_by_gnu_hash(const char* name, const char* version) const;
  uint32_t find_by_sysv_hash(const char* name, const char* version) const;

  uintptr_t base_, begin_, end_;
  Table<ElfW(Dyn)> entries_;
  Table<ElfW(Sym)> symbols_;
  Table<char> names_;
  Table<ElfW(Versym)> versions_;
  Table<uint32_t> gnu_hash_, sysv_hash_;
};

}  // namespace devtrace::elf

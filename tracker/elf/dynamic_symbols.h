// The dynamic symbol table of a loaded object, read where the loader mapped it.
//
// Why not dlsym: it takes the loader's lock, which a thread inside dlopen holds while it runs constructors that may
// wait for a lock our caller holds; it may call malloc; it does not see objects loaded RTLD_LOCAL; and this library
// itself intercepts it.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace devtrace::elf {

class DynamicSymbols {
 public:
  // `object` as dl_iterate_phdr passes it; valid as long as the object stays loaded.
  explicit DynamicSymbols(const dl_phdr_info& object);

  // Address of the function or variable that the object defines under this name; nullptr when there is none.
  void* find(std::string_view name) const;

  // Calls visit(const Elf64_Sym&, const char* name) for every symbol that the object defines and exports.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const size_t end = count();
    for (size_t i = 0; i < end; ++i) {
      if (symbols_[i].st_shndx != SHN_UNDEF) visit(symbols_[i], strings_ + symbols_[i].st_name);
    }
  }

 private:
  size_t count() const;

  uintptr_t base_ = 0;
  const Elf64_Sym* symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;
  const uint32_t* sysv_hash_ = nullptr;
};

}  // namespace devtrace::elf

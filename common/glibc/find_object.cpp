// _dl_find_object, by which GCC's unwinder asks for an address's unwind table since glibc 2.35. Where the C library has
// it, it is used: it takes no lock. Else the table is looked for as before.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef DLFO_STRUCT_HAS_EH_DBASE
namespace {

using Find = int (*)(void*, dl_find_object*);
constinit Find of_the_c_library = nullptr;

[[gnu::constructor]] void look_up() {
  of_the_c_library = reinterpret_cast<Find>(::dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35"));
}

struct Search {
  uintptr_t address;
  dl_find_object* out;
};

// The loader's entry; its list stays as it is while dl_iterate_phdr runs.
link_map* entry_of(const ElfW(Dyn) * dynamic) {
  for (link_map* one = _r_debug.r_map; one; one = one->l_next)
    if (one->l_ld == dynamic) return one;
  return nullptr;
}

int look_into(dl_phdr_info* object, size_t, void* argument) {
  const auto& search = *static_cast<const Search*>(argument);
  dl_find_object found{};
  bool inside = false;
  uintptr_t first = UINTPTR_MAX, last = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) found.dlfo_link_map = entry_of(reinterpret_cast<const ElfW(Dyn)*>(begin));
    if (header.p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = reinterpret_cast<void*>(begin);
    if (header.p_type != PT_LOAD) continue;
    first = std::min(first, begin);
    last = std::max(last, begin + header.p_memsz);
    inside = inside || (search.address >= begin && search.address - begin < header.p_memsz);
  }
  found.dlfo_map_start = reinterpret_cast<void*>(first);
  found.dlfo_map_end = reinterpret_cast<void*>(last);
  if (!inside || !found.dlfo_eh_frame) return inside ? -1 : 0;
  *search.out = found;
  return 1;
}

}  // namespace

extern "C" int _dl_find_object(void* address, dl_find_object* out) noexcept {
  if (of_the_c_library) return of_the_c_library(address, out);
  Search search{reinterpret_cast<uintptr_t>(address), out};
  return ::dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
#endif

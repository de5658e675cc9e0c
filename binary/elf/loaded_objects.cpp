#include "binary/elf/loaded_objects.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/auxv.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "binary/elf/plain_text.h"

namespace devtrace::elf {
namespace {

std::atomic<bool> forked{false};
[[gnu::constructor]] void watch_forks() {
  ::pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
}

// Where the object's file begins in memory; null: nobody knows.
const ElfW(Ehdr) * start_of(const link_map& object) {
  if (object.l_addr == ::getauxval(AT_SYSINFO_EHDR)) return reinterpret_cast<const ElfW(Ehdr)*>(object.l_addr);
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found;
  return ::_dl_find_object(object.l_ld, &found) == 0 ? static_cast<const ElfW(Ehdr)*>(found.dlfo_map_start) : nullptr;
#else
  return reinterpret_cast<const ElfW(Ehdr)*>(object.l_addr);
#endif
}

bool add_headers(const link_map& object, dl_phdr_info& info) {
  if (&object == _r_debug.r_map) {  // the program
    info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
    info.dlpi_phnum = static_cast<ElfW(Half)>(::getauxval(AT_PHNUM));
    return info.dlpi_phdr != nullptr;
  }
  const ElfW(Ehdr)* const start = start_of(object);
  if (!start || std::memcmp(start->e_ident, ELFMAG, SELFMAG) != 0) return false;
  info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(reinterpret_cast<const char*>(start) + start->e_phoff);
  info.dlpi_phnum = start->e_phnum;
  return true;
}

}  // namespace

bool Object::is_this_library() const {
  return dynamic == _DYNAMIC;  // every object has its own of that name
}

Object object_of(const link_map& listed) {
  return {plain_view(listed.l_name), listed.l_addr, listed.l_ld};
}

Object object_of(const dl_phdr_info& shown) {
  Object object{plain_view(shown.dlpi_name), shown.dlpi_addr, nullptr};
  object.segments = {shown.dlpi_phdr, shown.dlpi_phnum};
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (const ElfW(Phdr) & segment : object.segments) {
    const uintptr_t start = shown.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_DYNAMIC) object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
    if (segment.p_type != PT_LOAD) continue;
    begin = std::min(begin, start);
    end = std::max(end, start + segment.p_memsz);
  }
  if (begin < end) object.begin = begin, object.end = end;
  return object;
}

size_t Object::bytes_behind(uintptr_t address) const {
  for (const ElfW(Phdr) & segment : segments) {
    const uintptr_t before = address - base - segment.p_vaddr;
    if (segment.p_type == PT_LOAD && before < segment.p_memsz) return segment.p_memsz - before;
  }
  return 0;
}

const link_map* object_at(const void* address) {
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found;
  return ::_dl_find_object(const_cast<void*>(address), &found) == 0 ? found.dlfo_link_map : nullptr;
#else
  Dl_info info{};
  link_map* object = nullptr;
  return ::dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) ? object : nullptr;
#endif
}

// Every object is told both of the loader's counts.
static dl_phdr_info counts() {
  dl_phdr_info first{};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* argument) {
        *static_cast<dl_phdr_info*>(argument) = *object;
        return 1;
      },
      &first);
  return first;
}

unsigned long long loaded_objects() {
  return counts().dlpi_adds;
}

unsigned long long unloaded_objects() {
  return counts().dlpi_subs;
}

}  // namespace devtrace::elf

extern "C" {
int __real_dl_iterate_phdr(int (*callback)(dl_phdr_info*, size_t, void*), void* data);

__attribute__((visibility("hidden"))) int __wrap_dl_iterate_phdr(int (*callback)(dl_phdr_info*, size_t, void*),
                                                                 void* data) {
  if (!devtrace::elf::forked.load(std::memory_order_relaxed)) return __real_dl_iterate_phdr(callback, data);
  // Here nobody counts what was loaded, but the list grows at its end.
  unsigned long long adds = 0;
  for (const link_map* one = _r_debug.r_map; one; one = one->l_next) adds = reinterpret_cast<uintptr_t>(one->l_ld);
  int result = 0;
  for (const link_map* one = _r_debug.r_map; one && result == 0; one = one->l_next) {
    dl_phdr_info info{};
    info.dlpi_addr = one->l_addr;
    info.dlpi_name = one->l_name;
    info.dlpi_adds = adds;
    if (devtrace::elf::add_headers(*one, info)) result = callback(&info, sizeof info, data);
  }
  return result;
}
}

#include "tracker/stacks/loaded_objects.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace devtrace {
namespace {

std::atomic<bool> forked{false};
[[gnu::constructor]] void watch_forks() {
  ::pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
}

std::string_view text(const char* path) {
  return path ? path : "";
}

struct Show {
  bool (*look)(const Object&, void*);
  void* data;
};

int show(dl_phdr_info* info, size_t, void* data) {
  const Show& show = *static_cast<Show*>(data);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  return show.look({text(info->dlpi_name), info->dlpi_addr, dynamic}, show.data);
}

}  // namespace

bool Object::is_this_library() const {
  return dynamic == _DYNAMIC;  // every object has its own of that name
}

Object object_of(const link_map& listed) {
  return {text(listed.l_name), listed.l_addr, listed.l_ld};
}

void for_each_object(bool (*look)(const Object&, void* data), void* data) {
  if (!forked.load(std::memory_order_relaxed)) {
    Show to{look, data};
    ::dl_iterate_phdr(show, &to);
    return;
  }
  for (const link_map* one = _r_debug.r_map; one; one = one->l_next)
    if (look(object_of(*one), data)) return;
}

unsigned long long loaded_objects() {
  unsigned long long adds = 0;
  if (forked.load(std::memory_order_relaxed)) {
    // Nobody counts here, but the list grows at its end.
    for (const link_map* one = _r_debug.r_map; one; one = one->l_next) adds = reinterpret_cast<uintptr_t>(one->l_ld);
    return adds;
  }
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* argument) {
        *static_cast<unsigned long long*>(argument) = object->dlpi_adds;
        return 1;
      },
      &adds);
  return adds;
}

}  // namespace devtrace

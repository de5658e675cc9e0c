#include "interpose/linking/imports/import_slots.h"

#include <atomic>
#include <cerrno>

#include "binary/elf/loaded.h"
#include "interpose/linking/imports/import_relocations.h"
#include "interpose/linking/imports/page_protection.h"
#include "interpose/linking/named_hooks.h"
#include "tracker/base/address_map.h"
#include "tracker/base/message.h"

namespace devtrace::interpose::import_slots {
namespace {

// What a slot held before. Only who holds the loader's list writes slots, so that no two do it at a time.
struct Before {
  uintptr_t slot = 0;
  uintptr_t value = 0;
  uint64_t key() const { return slot; }
};
constinit AddressMap<Before> befores;
constinit std::atomic<bool> redirecting{false};
constinit std::atomic<unsigned long long> seen_loaded{0};

// The loader itself, and what the kernel gives: the first must not be changed while it runs, the second calls nobody.
bool is_left_alone(const elf::Object& object) {
  return object.is_this_library() || object.file().starts_with("ld-") || object.file().starts_with("linux-vdso");
}

uintptr_t value_of(uintptr_t slot) {
  return std::atomic_ref(*reinterpret_cast<uintptr_t*>(slot)).load(std::memory_order_acquire);
}

// Whether the slot holds what the loader puts there: its own object's stub that has the function looked up at the first
// call, or some object's definition. Another value is another tool's.
bool is_the_loaders(uintptr_t value, const elf::Object& object, const char* symbol, const char* version) {
  const link_map* const found = elf::object_at(reinterpret_cast<void*>(value));
  if (!found) return false;
  const elf::Object home = elf::object_of(*found);
  const elf::Loaded there(home);
  return home.dynamic == object.dynamic || reinterpret_cast<uintptr_t>(there.find(symbol, version)) == value ||
         reinterpret_cast<uintptr_t>(there.find(symbol)) == value;
}

// What a preloaded library's reference would be bound to: the version's own trampoline, else the hook.
uintptr_t hook_for(const elf::Object& own, const char* symbol, const char* version) {
  const elf::Loaded library(own);
  void* hook = version ? library.find(symbol, version) : nullptr;
  if (!hook) hook = library.find(symbol);
  return reinterpret_cast<uintptr_t>(hook);
}

// Of all objects that are not left alone: visit(pages, slot, what it leads to now, the hook, object, symbol, version).
template <class Visit>
void for_each_hooked_slot(const Visit& visit) {
  elf::Object own{};
  elf::for_each_object([&](const elf::Object& object) {
    own = object;
    return object.is_this_library();
  });
  elf::for_each_object([&](const elf::Object& object) {
    if (is_left_alone(object)) return false;
    PageProtection pages;
    const ImportRelocations relocations(object);
    relocations.for_each([&](uintptr_t slot, const char* symbol, size_t index) {
      if (!hook_named(symbol)) return;
      const char* const version = relocations.version_of(index);
      visit(pages, slot, value_of(slot), hook_for(own, symbol, version), object, symbol, version);
    });
    return false;
  });
}

}  // namespace

Redirected redirect() {
  const int saved = errno;
  Redirected done;
  seen_loaded.store(elf::loaded_objects());
  for_each_hooked_slot([&](PageProtection& pages, uintptr_t slot, uintptr_t value, uintptr_t hook,
                           const elf::Object& object, const char* symbol, const char* version) {
    if (hook == 0 || value == hook) return;
    if (!is_the_loaders(value, object, symbol, version)) {
      ++done.left;
      return;
    }
    befores.put({slot, value});
    pages.write(slot, hook) ? ++done.slots : ++done.left;
  });
  redirecting.store(true);
  errno = saved;
  return done;
}

void restore() {
  const int saved = errno;
  redirecting.store(false);
  for_each_hooked_slot([](PageProtection& pages, uintptr_t slot, uintptr_t value, uintptr_t hook, const elf::Object&,
                          const char*, const char*) {
    Before before;
    // Where an object was closed another one may lie: only a slot that still leads to the hook is ours.
    if (value == hook && befores.take(slot, before)) pages.write(slot, before.value);
  });
  befores.clear();
  errno = saved;
}

bool active() {
  return redirecting.load(std::memory_order_relaxed);
}

void notice() {
  if (!active()) return;
  const unsigned long long now = elf::loaded_objects();
  if (now == seen_loaded.exchange(now)) return;
  const Redirected more = redirect();
  if (more.slots && verbose()) explain("objects were loaded: %zu slots more lead here", more.slots);
}

}  // namespace devtrace::interpose::import_slots

#include "interpose/linking/cuda_runtimes.h"

#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <string_view>

#include "binary/elf/loaded.h"
#include "tracker/base/assert.h"
#include "tracker/base/message.h"

namespace {
constexpr const char* kVersions[] = {
#define VERSION(number, name) #name,
#include "interpose/linking/cudart_versions.inc"
#undef VERSION
};
constexpr int kVersionCount = std::size(kVersions);

struct Choice {
  const void* caller;  // where the call returns to
  int number;          // of the entry: the slots' first
};
}  // namespace

// What the entries read and write; the assembler knows these names.
extern "C" {
#define DEVTRACE_HIDDEN __attribute__((visibility("hidden")))
// By number, the slots' first: whether there is only one runtime and the entry leads to it.
DEVTRACE_HIDDEN constinit std::atomic<bool>
    devtrace_settled[devtrace::interpose::cuda_runtimes::kSlots + kVersionCount]{};
DEVTRACE_HIDDEN constinit std::atomic<bool> devtrace_several{false};
// By which entry this thread last came.
DEVTRACE_HIDDEN __attribute__((tls_model("initial-exec"))) constinit __thread Choice devtrace_choice{nullptr, -1};
DEVTRACE_HIDDEN extern void* const devtrace_slot_trampolines[][devtrace::interpose::cuda_runtimes::kSlots];
DEVTRACE_HIDDEN extern const char devtrace_trampolines_begin[], devtrace_trampolines_end[];
DEVTRACE_HIDDEN void devtrace_settle(int number);
}

namespace devtrace::interpose::cuda_runtimes {
namespace {

constexpr int kNone = -1;

// The hooks of the runtime's functions, numbered on their own.
constexpr auto kNumbers = [] {
  std::array<int, static_cast<size_t>(Symbol::count)> numbers{};
  int next = 0;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = of_runtime(static_cast<Symbol>(i)) ? next++ : kNone;
  return numbers;
}();
constexpr int kFunctions = [] {
  int count = 0;
  for (const int number : kNumbers) count += number >= 0;
  return count;
}();

int number_of(Symbol symbol) {
  return kNumbers[static_cast<size_t>(symbol)];
}

using Functions = std::atomic<void*>[kFunctions];

// A loaded runtime. Only who holds the loader's list changes who has a slot, so that no two do it at a time. Not so in
// a fork's child: other threads are none or new.
struct Slot {
  std::atomic<const void*> object{nullptr};  // its dynamic section; null: the slot is free
  std::atomic<int> version{kNone};           // index into kVersions
};
constinit Slot slots[kSlots];

// By the number of an entry. The slots' own functions, where they were looked up or called; then what a reference to a
// version leads to, once it is clear.
constinit Functions functions[kSlots + kVersionCount]{};
constexpr Functions* versions = functions + kSlots;

Functions& functions_of(const Slot& slot) {
  return functions[&slot - slots];
}

// What a reference finds among the objects of the start, by its version (kNone: without one); kNothing: nothing.
constinit Functions at_start[1 + kVersionCount]{};
void* const kNothing = reinterpret_cast<void*>(-1);

std::atomic<void*>& found_at_start(Symbol symbol, int version) {
  return at_start[1 + version][number_of(symbol)];
}

// Which slot an object's calls mean: 56 bits that name the object, 8 of the slot.
constinit std::atomic<uint64_t> callers[512]{};

bool in_list(const link_map* first, const Slot& slot) {
  for (; first; first = first->l_next)
    if (first->l_ld == slot.object.load(std::memory_order_relaxed)) return true;
  return false;
}

Slot* slot_of(const link_map& object) {
  for (Slot& slot : slots)
    if (slot.object.load(std::memory_order_relaxed) == object.l_ld) return &slot;
  return nullptr;
}

bool is_runtime(const link_map& object) {
  return is_library(elf::object_of(object).file(), kRuntime);
}

template <class Table>
void forget(Table& table) {
  for (std::atomic<void*>& each : table) each.store(nullptr, std::memory_order_relaxed);
}

void take_slot(const link_map& object) {
  for (Slot& slot : slots) {
    if (slot.object.load(std::memory_order_relaxed)) continue;
    int version = kVersionCount - 1;
    while (version >= 0 && elf::Loaded(object).number_of(kVersions[version]) == 0) --version;
    slot.version.store(version, std::memory_order_relaxed);
    slot.object.store(object.l_ld, std::memory_order_release);
    if (verbose())
      explain("CUDA runtime: %s, version %s", object.l_name, version >= 0 ? kVersions[version] : "unknown");
    if (version >= 0) forget(versions[version]);  // no longer the only one of them
    return;
  }
}

void* function_in(const link_map& object, Symbol symbol) {
  return elf::Loaded(object).find(name_of(symbol));
}

// ---- What the loader searches for an object.

constexpr size_t kMostObjects = 512;

struct Group {
  const link_map* objects[kMostObjects];
  size_t count = 0;

  bool has(const link_map* object) const {
    for (size_t i = 0; i < count; ++i)
      if (objects[i] == object) return true;
    return false;
  }
  bool add(const link_map* object) {
    if (!object || count == kMostObjects || has(object)) return false;
    objects[count++] = object;
    return true;
  }
};

// An object and all it needs, in the order in which the loader searches them.
void needed_by(const link_map* first, const link_map* root, Group& group) {
  group.add(root);
  for (size_t i = 0; i < group.count; ++i)
    elf::Loaded(*group.objects[i]).for_each_needed([&](const char* name) {
      const link_map* one = first;
      while (one && !elf::Loaded(*one).is_named(name)) one = one->l_next;
      group.add(one);
    });
}

// All objects that need one, at first or second hand, and the object itself.
void who_need(const link_map* first, const link_map* object, Group& group) {
  group.add(object);
  for (bool more = true; more;) {
    more = false;
    for (const link_map* one = first; one; one = one->l_next) {
      if (group.has(one)) continue;
      bool needs = false;
      elf::Loaded(*one).for_each_needed([&](const char* name) {
        for (size_t i = 0; i < group.count && !needs; ++i) needs = elf::Loaded(*group.objects[i]).is_named(name);
      });
      if (needs) more |= group.add(one);
    }
  }
}

bool fits(const Slot* slot, int version) {
  return slot && (version == kNone || slot->version.load(std::memory_order_relaxed) == version);
}

// The runtime that the loader finds for an object that was opened after the start. It searches what the object was
// first opened with: the earliest of those that need it.
Slot* in_scope_of(const link_map* first, const link_map* caller, int version) {
  Group openers;
  who_need(first, caller, openers);
  for (const link_map* one = first; one; one = one->l_next) {
    if (!openers.has(one) || was_there_at_start(*one)) continue;
    Group scope;
    needed_by(first, one, scope);
    for (size_t i = 0; i < scope.count; ++i)
      if (Slot* const slot = slot_of(*scope.objects[i]); fits(slot, version)) return slot;
  }
  return nullptr;
}

// Names an object and the version it refers to; the last 8 bits are left free. By its file as well: where one was
// closed the next may lie.
uint64_t tag_of(const link_map& object, int version) {
  uint64_t hash = reinterpret_cast<uintptr_t>(&object) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ reinterpret_cast<uintptr_t>(object.l_ld) ^ (hash >> 29)) * 0xBF58476D1CE4E5B9u;
  hash ^= std::hash<std::string_view>{}(object.l_name ? object.l_name : "");
  return (hash + static_cast<uint64_t>(version + 1)) << 8;
}

std::atomic<uint64_t>& kept_under(uint64_t tag) {
  return callers[(tag >> 8) % std::size(callers)];
}

// As was found before; null: not yet.
Slot* slot_known_for(uint64_t tag) {
  const uint64_t entry = kept_under(tag).load(std::memory_order_relaxed);
  return (entry & ~uint64_t{0xFF}) == tag && (entry & 0xFF) ? &slots[(entry & 0xFF) - 1] : nullptr;
}

Slot* slot_meant_by(const link_map* first, const void* caller, int version) {
  const link_map* const object = elf::object_at(caller);
  Slot* found = object && !was_there_at_start(*object) ? in_scope_of(first, object, version) : nullptr;
  // Nobody would have bound that call: a pointer to the function that was passed on, or a runtime opened for all.
  for (const link_map* one = first; one && !found; one = one->l_next)
    if (Slot* const slot = slot_of(*one); fits(slot, version)) found = slot;
  for (const link_map* one = first; one && !found; one = one->l_next) found = slot_of(*one);
  if (object && found) {
    const uint64_t tag = tag_of(*object, version);
    kept_under(tag).store(tag | static_cast<uint64_t>(found - slots + 1), std::memory_order_relaxed);
  }
  return found;
}

void* function_of_slot(const link_map* first, Slot* slot, Symbol symbol) {
  if (!slot) return nullptr;
  std::atomic<void*>& known = functions_of(*slot)[number_of(symbol)];
  void* function = known.load(std::memory_order_relaxed);
  for (const link_map* one = first; one && !function; one = one->l_next)
    if (one->l_ld == slot->object.load(std::memory_order_relaxed))
      known.store(function = function_in(*one, symbol), std::memory_order_relaxed);
  return function;
}

// What the loader finds before any object that was opened later: a tool's wrapper, a runtime that the program is linked
// to. `version`: null for a reference without one.
void* among_the_start(const link_map* first, Symbol symbol, const char* version) {
  bool passed = false;
  for (const link_map* one = first; one && was_there_at_start(*one); one = one->l_next) {
    const elf::Object object = elf::object_of(*one);
    if (object.is_this_library()) {
      passed = true;
    } else if (passed) {
      if (void* const found = elf::Loaded(object).find(name_of(symbol), version)) return found;
    }
  }
  return nullptr;
}

// `version`: kNone for a reference without one.
void* of_reference(const link_map* first, Symbol symbol, int version, const void* caller) {
  std::atomic<void*>& known = found_at_start(symbol, version);
  void* function = known.load(std::memory_order_relaxed);
  if (!function) {
    function = among_the_start(first, symbol, version == kNone ? nullptr : kVersions[version]);
    if (!function) function = kNothing;
    known.store(function, std::memory_order_relaxed);
  }
  if (function == kNothing) function = function_of_slot(first, slot_meant_by(first, caller, version), symbol);
  if (version == kNone) return function;
  int candidates = 0;
  for (const Slot& slot : slots) candidates += slot.object.load(std::memory_order_relaxed) && fits(&slot, version);
  if (function && candidates <= 1) versions[version][number_of(symbol)].store(function, std::memory_order_relaxed);
  return function;
}

// What was found for that caller's object before; null: it has to be looked for. Takes no lock.
[[gnu::noinline]] void* known_for_caller(Symbol symbol, int version, const void* caller) {
  void* const early = found_at_start(symbol, version).load(std::memory_order_relaxed);
  if (early != kNothing) return early;
  const link_map* const object = elf::object_at(caller);
  const Slot* const slot = object ? slot_known_for(tag_of(*object, version)) : nullptr;
  void* const function = slot ? functions_of(*slot)[number_of(symbol)].load(std::memory_order_relaxed) : nullptr;
  // Nobody says when a runtime goes.
  const link_map* const home = function ? elf::object_at(function) : nullptr;
  return home && home->l_ld == slot->object.load(std::memory_order_relaxed) ? function : nullptr;
}

void* known_function(Symbol symbol, int choice, const void* caller) {
  DEVTRACE_ASSERT(choice >= kNone && choice < kSlots + kVersionCount);
  const int version = choice < kSlots ? kNone : choice - kSlots;
  if (choice >= 0) {
    void* const function = functions[choice][number_of(symbol)].load(std::memory_order_relaxed);
    if (function || version == kNone) return function;
  }
  return known_for_caller(symbol, version, caller);
}

[[gnu::noinline]] void* look_for_function(Symbol symbol, int choice, const void* caller) {
  void* function = nullptr;
  const int saved = errno;
  look();
  elf::with_objects([&](const link_map* first) {
    if (choice >= kSlots)
      function = of_reference(first, symbol, choice - kSlots, caller);
    else if (choice >= 0)
      function = function_of_slot(first, &slots[choice], symbol);
    if (!function) function = of_reference(first, symbol, kNone, caller);
  });
  errno = saved;
  return function;
}

[[gnu::noinline]] void* function_of_choice(Symbol symbol, int choice, const void* caller) {
  void* const function = known_function(symbol, choice, caller);
  return function ? function : look_for_function(symbol, choice, caller);
}

}  // namespace

void look() {
  elf::with_objects([](const link_map* first) {
    for (Slot& slot : slots) {
      if (!slot.object.load(std::memory_order_relaxed) || in_list(first, slot)) continue;
      slot.object.store(nullptr, std::memory_order_relaxed);
      forget(functions_of(slot));
      if (const int version = slot.version.load(std::memory_order_relaxed); version >= 0) forget(versions[version]);
      for (std::atomic<uint64_t>& caller : callers) caller.store(0, std::memory_order_relaxed);
    }
    int count = 0;
    for (const link_map* one = first; one; one = one->l_next) {
      if (!is_runtime(*one)) continue;
      ++count;
      if (!slot_of(*one)) take_slot(*one);
    }
    if (count <= 1 || devtrace_several.load()) return;
    // First the flag: who has just found "the only one's" function looks at it after keeping that.
    devtrace_several.store(true);
    for (std::atomic<bool>& settled : devtrace_settled) settled.store(false);
    forget_originals_of_runtime();
  });
}

void notice() {
  static constinit std::atomic<unsigned long long> loaded{0};
  const unsigned long long now = elf::loaded_objects();
  if (now == loaded.exchange(now)) return;
  const int saved = errno;
  look();
  errno = saved;
}

// What takes longer is called at the end: where the entry has said which one is meant, no registers are saved.
void* function_for(Symbol symbol, const void* caller) {
  Choice& chosen = devtrace_choice;
  const int choice = chosen.caller == caller ? chosen.number : kNone;
  chosen.caller = nullptr;
  if (choice < 0) [[unlikely]]
    return function_of_choice(symbol, choice, caller);
  void* const function = functions[choice][number_of(symbol)].load(std::memory_order_relaxed);
  return function ? function : function_of_choice(symbol, choice, caller);
}

void* peek_for(Symbol symbol, const void* caller) {
  return function_of_choice(symbol, devtrace_choice.caller == caller ? devtrace_choice.number : kNone, caller);
}

void* trampoline_to(Symbol symbol, void* found) {
  const int number = number_of(symbol);
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (Slot& slot : slots)
      if (functions_of(slot)[number].load(std::memory_order_relaxed) == found)
        return devtrace_slot_trampolines[number][&slot - slots];
    if (attempt == 0) look();
    elf::with_objects([&](const link_map* first) {
      for (const link_map* one = first; one; one = one->l_next)
        if (Slot* const slot = slot_of(*one); slot && function_in(*one, symbol) == found)
          functions_of(*slot)[number].store(found, std::memory_order_relaxed);
    });
  }
  return nullptr;
}

bool is_trampoline(const void* address) {
  return address >= devtrace_trampolines_begin && address < devtrace_trampolines_end;
}

bool function_of(int which, const char* symbol, void*& found) {
  bool there = false;
  elf::for_each_object([&](const elf::Object& object) {
    if (!is_library(object.file(), kRuntime) || which-- > 0) return false;
    found = elf::Loaded(object).find(symbol);
    return there = true;
  });
  return there;
}

void* beside(const void* function, const char* symbol) {
  const link_map* const object = elf::object_at(function);
  return object ? elf::Loaded(*object).find(symbol) : nullptr;
}

}  // namespace devtrace::interpose::cuda_runtimes

// An entry was called that may lead to the only runtime there is.
void devtrace_settle(int number) {
  using namespace devtrace::interpose::cuda_runtimes;
  const int saved = errno;
  look();
  const bool known = number >= kSlots || slots[number].object.load(std::memory_order_relaxed);
  bool any = false;
  for (const Slot& slot : slots) any |= slot.object.load(std::memory_order_relaxed) != nullptr;
  if (!devtrace_several.load() && known && any) {
    devtrace_settled[number].store(true);
    if (devtrace_several.load()) devtrace_settled[number].store(false);
  }
  errno = saved;
}

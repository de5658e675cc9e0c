#include "interpose/linking/original.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "binary/elf/loaded.h"
#include "binary/elf/plain_text.h"
#include "interpose/linking/cuda_runtimes.h"
#include "tracker/base/message.h"

namespace devtrace::interpose {
namespace {

constinit std::atomic<void*> firsts[static_cast<int>(Symbol::count)]{};

// The objects that were there when the program started come first, in the order in which the loader searches them; what
// is opened later follows and may be RTLD_LOCAL. Until this constructor has run only constructors have, of objects of
// the start.
size_t objects_at_start = SIZE_MAX;
bool late = false;

// What the loader loaded at the start is needed by the program, by what was preloaded in front of what the program
// needs, or by one of these. Nothing that was opened later is.
size_t count_of_start(const link_map* first) {
  size_t end = 1, position = 0;
  for (const link_map* one = first; one && position < end; one = one->l_next, ++position)
    elf::Loaded(*one).for_each_needed([&](const char* needed) {
      const std::string_view name = elf::plain_view(needed);
      size_t at = 0;
      for (const link_map* other = first; other; other = other->l_next, ++at)
        if (elf::Loaded(*other).is_named(name)) {
          if (at >= end) end = at + 1;
          break;
        }
    });
  return end;
}

[[gnu::constructor]] void count_objects() {
  elf::with_objects([](const link_map* first) {
    const size_t start = count_of_start(first);
    size_t count = 0, own = 0;
    for (const link_map* one = first; one; one = one->l_next, ++count)
      if (elf::object_of(*one).is_this_library()) own = count;
    late = own >= start;
    objects_at_start = late ? start : count;
  });
}

// Where CUDA and PyTorch were found: with the first function of each library that is called.
void explain_place(Symbol symbol, const void* address) {
  const char* const library = kHookRows[static_cast<int>(symbol)].library;
  static constinit std::atomic<const char*> told[16]{};
  for (std::atomic<const char*>& each : told) {
    const char* known = each.load();
    if (known && std::strcmp(known, library) == 0) return;
    if (!known && each.compare_exchange_strong(known, library)) break;
  }
  Dl_info info{};
  const bool found = ::dladdr(address, &info) && info.dli_fname;
  explain("%s: first called is %s, in %s", library, name_of(symbol), found ? info.dli_fname : "no file");
}

enum class Side { before_us, behind_us };
// The first definition among the objects of the start on one side of this library.
void* at_start(Side side, const char* symbol) {
  void* found = nullptr;
  size_t position = 0;
  bool passed = late;
  elf::for_each_object([&](const elf::Object& object) {
    if (position++ >= objects_at_start || (passed && side == Side::before_us)) return true;
    if (object.is_this_library())
      passed = true;
    else if (passed == (side == Side::behind_us))
      found = elf::Loaded(object).find(symbol);
    return found != nullptr;
  });
  return found;
}

}  // namespace

constinit std::atomic<void*> originals[static_cast<int>(Symbol::count)]{};

bool is_library(std::string_view file, std::string_view library) {
  const size_t stem = library.rfind(".so");
  if (elf::plain_compare(file.substr(0, stem), library.substr(0, stem)) != 0) return false;
  file.remove_prefix(std::min(stem, file.size()));
  if (file.starts_with("-")) {
    const size_t hash = file.find_first_not_of("0123456789abcdef", 1);
    if (hash == 1 || hash == file.npos) return false;
    file.remove_prefix(hash);
  }
  return elf::plain_compare(file, ".so") == 0 || elf::plain_compare(file.substr(0, 4), ".so.") == 0;
}

void* find_in_library(const char* library, const char* symbol) {
  void* found = nullptr;
  elf::for_each_object([&](const elf::Object& object) {
    if (is_library(object.file(), library)) found = elf::Loaded(object).find(symbol);
    return found != nullptr;
  });
  return found;
}

bool is_loaded(const char* library) {
  bool found = false;
  elf::for_each_object([&](const elf::Object& object) { return found = is_library(object.file(), library); });
  return found;
}

bool defined_before_us(const char* symbol) {
  return at_start(Side::before_us, symbol);
}

bool loaded_late() {
  return late;
}

bool was_there_at_start(const link_map& object) {
  const link_map* one = _r_debug.r_map;
  for (size_t position = 0; one && position < objects_at_start; ++position, one = one->l_next)
    if (one == &object) return true;
  return false;
}

bool there_at_start(const void* address) {
  const link_map* const object = elf::object_at(address);
  return object && was_there_at_start(*object);
}

void* own_address(const char* symbol) {
  void* found = nullptr;
  elf::for_each_object([&](const elf::Object& object) {
    if (object.is_this_library()) found = elf::Loaded(object).find(symbol);
    return object.is_this_library();
  });
  return found;
}

bool of_cuda_12(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) && info.dli_fname && std::strstr(info.dli_fname, "libcudart.so.12");
}

void* library_address(Symbol symbol) {
  return find_in_library(kHookRows[static_cast<int>(symbol)].library, name_of(symbol));
}

void* original_address(Symbol symbol) {
  const int index = static_cast<int>(symbol);
  void* address = firsts[index].load(std::memory_order_relaxed);
  if (address) return address;
  // As RTLD_NEXT would; what Python opened RTLD_LOCAL, which is most of PyTorch, it would not see.
  address = at_start(Side::behind_us, name_of(symbol));
  if (!address) address = library_address(symbol);
  if (address) firsts[index].store(address, std::memory_order_relaxed);
  if (address && verbose()) explain_place(symbol, address);
  return address;
}

// For the first call of a function.
[[gnu::noinline]] static void* find_only_original(Symbol symbol, const void* caller) {
  if (of_runtime(symbol)) {
    cuda_runtimes::look();
    if (cuda_runtimes::several()) return cuda_runtimes::function_for(symbol, caller);
  }
  void* const address = original_address(symbol);
  std::atomic<void*>& kept = originals[static_cast<int>(symbol)];
  kept.store(address);
  // A second runtime that another thread has seen in between: who saw it may have forgotten too early.
  if (of_runtime(symbol) && cuda_runtimes::several()) {
    kept.store(nullptr);
    return cuda_runtimes::function_for(symbol, caller);
  }
  return address;
}

void* find_original(Symbol symbol, const void* caller) {
  if (of_runtime(symbol) && cuda_runtimes::several()) [[likely]]
    return cuda_runtimes::function_for(symbol, caller);
  return find_only_original(symbol, caller);
}

void forget_originals_of_runtime() {
  for (int i = 0; i < static_cast<int>(Symbol::count); ++i)
    if (of_runtime(static_cast<Symbol>(i))) originals[i].store(nullptr);
}

}  // namespace devtrace::interpose

#include "interpose/math_libraries/library_of_caller.h"

#include <dlfcn.h>

#include <atomic>
#include <string_view>

#include "binary/elf/loaded.h"
#include "binary/elf/plain_text.h"

namespace devtrace::interpose {
namespace {

constinit std::atomic<bool> several{false};

std::string_view library_of(Symbol symbol) {
  return kHookRows[static_cast<int>(symbol)].library;
}

// What the object that `caller` lies in is linked to; null: it found the function by another way.
void* needed_by(const void* caller, Symbol symbol) {
  const link_map* const listed = elf::object_at(caller);
  if (!listed) return nullptr;
  std::string_view wanted;
  elf::Loaded(*listed).for_each_needed([&](const char* name) {
    if (const std::string_view file = elf::plain_view(name); wanted.empty() && is_library(file, library_of(symbol)))
      wanted = file;
  });
  void* found = nullptr;
  elf::for_each_object([&](const elf::Object& object) {
    const elf::Loaded library(object);
    if (!wanted.empty() && elf::plain_compare(library.soname(), wanted) == 0) found = library.find(name_of(symbol));
    return found != nullptr;
  });
  return found;
}

}  // namespace

void* library_function_for(Symbol symbol, const void* caller) {
  if (several.load(std::memory_order_relaxed)) [[unlikely]]
    if (void* const function = needed_by(caller, symbol)) return function;
  if (void* const function = original_for(symbol, caller)) return function;
  // In a file of another name, opened for all: somebody's own, or cuBLAS linked into it.
  return ::dlsym(RTLD_NEXT, name_of(symbol));
}

void look_at_libraries(Symbol symbol, const void* caller) {
  // Of two files of one name everybody gets the first's functions: in a rehearsal NVIDIA's own is loaded as well.
  std::string_view first;
  elf::for_each_object([&](const elf::Object& object) {
    if (!is_library(object.file(), library_of(symbol))) return false;
    if (first.empty()) first = object.file();
    if (elf::plain_compare(object.file(), first) != 0) several.store(true, std::memory_order_relaxed);
    return false;
  });
  Dl_info info{};
  void* const function = library_function_for(symbol, caller);
  if (function && ::dladdr(function, &info) && info.dli_fname && !there_at_start(function))
    ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace devtrace::interpose

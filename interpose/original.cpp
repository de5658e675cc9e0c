#include "interpose/original.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "interpose/elf_symbol.h"

namespace devtrace::interpose {
namespace {

struct Row {
  const char* library;
  const char* symbol;
};
constexpr Row kRows[] = {
#define HOOK(library, symbol) {library, #symbol},
#include "interpose/hooks.inc"
#undef HOOK
};
constinit std::atomic<void*> cache[static_cast<int>(Symbol::count)]{};

// The objects that were there when the program started come first, in the order in which the loader searches them; what
// is opened later follows and may be RTLD_LOCAL. Until this constructor has run only constructors have, of objects of
// the start.
size_t objects_at_start = SIZE_MAX;
[[gnu::constructor]] void count_objects() {
  size_t count = 0;
  for_each_object([&](const Object&) { return ++count, false; });
  objects_at_start = count;
}

// Whether `file` is the library whose name begins with `library` ("libcudart.so"): libcudart.so.13, and
// libcudart-8d27a8b4.so.11.0 as wheels with libraries of their own call it. A library of somebody else's has a longer
// name.
bool is_library(std::string_view file, std::string_view library) {
  const size_t stem = library.rfind(".so");
  if (!file.starts_with(library.substr(0, stem))) return false;
  file.remove_prefix(std::min(stem, file.size()));
  if (file.starts_with("-")) {
    const size_t hash = file.find_first_not_of("0123456789abcdef", 1);
    if (hash == 1 || hash == file.npos) return false;
    file.remove_prefix(hash);
  }
  return file == ".so" || file.starts_with(".so.");
}

enum class Side { before_us, behind_us };
// The first definition among the objects of the start on one side of this library.
void* at_start(Side side, const char* symbol) {
  void* found = nullptr;
  size_t position = 0;
  bool passed = false;
  for_each_object([&](const Object& object) {
    if (position++ >= objects_at_start || (passed && side == Side::before_us)) return true;
    if (object.is_this_library())
      passed = true;
    else if (passed == (side == Side::behind_us))
      found = elf_symbol(object, symbol);
    return found != nullptr;
  });
  return found;
}

}  // namespace

void* find_in_library(const char* library, const char* symbol) {
  void* found = nullptr;
  for_each_object([&](const Object& object) {
    if (is_library(object.file(), library)) found = elf_symbol(object, symbol);
    return found != nullptr;
  });
  return found;
}

bool defined_before_us(const char* symbol) {
  return at_start(Side::before_us, symbol);
}

bool there_at_start(const void* address) {
  Dl_info info{};
  link_map* object = nullptr;
  if (!::dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) || !object) return false;
  const link_map* one = _r_debug.r_map;
  for (size_t position = 0; one && position < objects_at_start; ++position, one = one->l_next)
    if (one == object) return true;
  return false;
}

void* own_address(const char* symbol) {
  void* found = nullptr;
  for_each_object([&](const Object& object) {
    if (object.is_this_library()) found = elf_symbol(object, symbol);
    return object.is_this_library();
  });
  return found;
}

bool of_cuda_12(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) && info.dli_fname && std::strstr(info.dli_fname, "libcudart.so.12");
}

void* library_address(Symbol symbol) {
  const Row& row = kRows[static_cast<int>(symbol)];
  return find_in_library(row.library, row.symbol);
}

void* original_address(Symbol symbol) {
  const int index = static_cast<int>(symbol);
  void* address = cache[index].load(std::memory_order_relaxed);
  if (address) return address;
  const Row& row = kRows[index];
  // As RTLD_NEXT would; what Python opened RTLD_LOCAL, which is most of PyTorch, it would not see.
  address = at_start(Side::behind_us, row.symbol);
  if (!address) address = find_in_library(row.library, row.symbol);
  if (address) cache[index].store(address, std::memory_order_relaxed);
  return address;
}

}  // namespace devtrace::interpose

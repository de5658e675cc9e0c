#include "interpose/original.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstring>

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

struct Search {
  const char* library;
  const char* symbol;
  void* found;
};

int look_in(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  const char* const name = file_name(*info);
  if (!name || std::strncmp(name, search.library, std::strlen(search.library)) != 0) return 0;
  void* handle = ::dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return 0;
  search.found = real_dlsym(handle, search.symbol);
  ::dlclose(handle);  // the count that RTLD_NOLOAD took; the object stays, its owner holds it
  return search.found != nullptr;
}

}  // namespace

void* find_in_library(const char* library, const char* symbol) {
  Search search{library, symbol, nullptr};
  ::dl_iterate_phdr(look_in, &search);
  return search.found;
}

bool of_cuda_12(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) && info.dli_fname && std::strstr(info.dli_fname, "libcudart.so.12");
}

void* original_address(Symbol symbol) {
  const int index = static_cast<int>(symbol);
  void* address = cache[index].load(std::memory_order_relaxed);
  if (address) return address;
  const int saved = errno;
  const Row& row = kRows[index];
  // RTLD_NEXT does not see what Python opened RTLD_LOCAL, which is all of PyTorch.
  address = real_dlsym(RTLD_NEXT, row.symbol);
  if (!address) address = find_in_library(row.library, row.symbol);
  if (address) cache[index].store(address, std::memory_order_relaxed);
  errno = saved;
  return address;
}

}  // namespace devtrace::interpose

#include "interpose/linking/named_hooks.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "binary/elf/plain_text.h"

namespace devtrace::interpose {
namespace {

constexpr auto kRows = [] {
  std::array<NamedHook, static_cast<size_t>(Symbol::count)> rows{
#define HOOK(library, symbol) NamedHook{#symbol, #symbol " ", Symbol::symbol},
#include "interpose/linking/hooks.inc"
#undef HOOK
  };
  std::ranges::sort(rows, {}, &NamedHook::symbol);
  return rows;
}();

// Most names are none of the table's from their first two characters on.
constexpr size_t kBegins = 1024;
constexpr size_t begin_of(const char* symbol) {
  return (static_cast<unsigned char>(symbol[0]) * 8u + static_cast<unsigned char>(symbol[0] ? symbol[1] : 0)) % kBegins;
}
constexpr auto kBegin = [] {
  std::array<bool, kBegins> begins{};
  for (const NamedHook& row : kRows) begins[begin_of(row.symbol.data())] = true;
  return begins;
}();

constinit std::atomic<void*> addresses[kRows.size()]{};

}  // namespace

std::span<const NamedHook> named_hooks() {
  return kRows;
}

const NamedHook* hook_named(const char* name) {
  if (!kBegin[begin_of(name)]) return nullptr;
  const std::string_view symbol = elf::plain_view(name);
  const auto before = [](std::string_view left, std::string_view right) { return elf::plain_compare(left, right) < 0; };
  const auto row = std::ranges::lower_bound(kRows, symbol, before, &NamedHook::symbol);
  return row != kRows.end() && elf::plain_compare(row->symbol, symbol) == 0 ? &*row : nullptr;
}

void* hook_of(const NamedHook& hook) {
  std::atomic<void*>& known = addresses[&hook - kRows.data()];
  void* address = known.load(std::memory_order_relaxed);
  if (!address) known.store(address = own_address(hook.symbol.data()), std::memory_order_relaxed);
  return address;
}

bool is_the_originals(const void* caller, const NamedHook& hook) {
  Dl_info asking{}, request{};
  void* const original = original_address(hook.index);
  return original && ::dladdr(caller, &asking) && ::dladdr(original, &request) && asking.dli_fbase == request.dli_fbase;
}

}  // namespace devtrace::interpose

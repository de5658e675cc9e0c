// Tables of addresses that the program copies to a device: a batched kernel is given one, and takes its operands'
// addresses out of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tracker/memory/ownership.h"

namespace devtrace::memory::pointer_tables {

struct Table {
  uint64_t address = 0;
  uint64_t first = 0;  // the first address in it
  ownership::Table::Devices owners = 0;
  uint32_t entries = 0;
  uint64_t key() const { return address; }
};

namespace detail {
[[gnu::visibility("hidden")]] extern std::atomic<bool> any;
void look(uintptr_t to, const void* from, size_t bytes);
void forget(uintptr_t address);
}  // namespace detail

inline bool any() {
  return detail::any.load(std::memory_order_relaxed);
}

// Before a copy. From the host's memory: is it a table that comes to a device? Whatever else comes there, it is none
// any more.
inline void copied(uintptr_t to, const void* from, size_t bytes) {
  constexpr size_t kLeast = 2 * sizeof(uint64_t), kMost = 4096;  // of one address alone too much is one by chance
  if (bytes >= kLeast && bytes <= kMost && bytes % sizeof(uint64_t) == 0 && ownership::likely(to).known())
    detail::look(to, from, bytes);
  else if (any())
    detail::forget(to);
}

// Its memory is given back, or to somebody else.
inline void gone(uintptr_t address) {
  if (any()) detail::forget(address);
}

// The table that begins there, if none of its addresses leads to memory of `here`. Who gives every device one table of
// all buffers means one entry for each.
std::optional<Table> elsewhere(uintptr_t address, Device here);

// When devtrace is attached again: what was copied in between, nobody saw.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::pointer_tables

#include "tracker/memory/pointer_tables.h"

#include <cstring>

#include "tracker/base/address_map.h"
#include "tracker/memory/host_memory.h"

namespace devtrace::memory::pointer_tables {
namespace {

constinit AddressMap<Table> tables;

}  // namespace

namespace detail {

constinit std::atomic<bool> any{false};

void forget(uintptr_t address) {
  Table was;
  if (address != 0) tables.take(address, was);
}

void look(uintptr_t to, const void* from, size_t bytes) {
  const auto source = reinterpret_cast<uintptr_t>(from);
  const ownership::Table owners;
  if (any.load(std::memory_order_relaxed)) forget(to);
  if (!owners || ownership::likely(source).known() || !host_memory::readable(source)) return;
  Table table{to, 0, 0, 0};
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, static_cast<const char*>(from) + at, sizeof word);
    if (word == 0) continue;
    const Device owner = ownership::likely(word);
    if (!owner.known()) return;
    if (table.first == 0) table.first = word;
    table.owners |= ownership::Table::Devices{1} << owner.index;
    ++table.entries;
  }
  if (table.entries == 0) return;
  tables.put(table);
  any.store(true, std::memory_order_relaxed);
}

}  // namespace detail

std::optional<Table> elsewhere(uintptr_t address, Device here) {
  Table found;
  if (!any() || address == 0 || !tables.get(address, found) || ownership::Table::has(found.owners, here))
    return std::nullopt;
  return found;
}

void forget_all() {
  tables.clear();
}

void before_fork() {
  tables.lock();
}

void after_fork() {
  tables.unlock();
}

}  // namespace devtrace::memory::pointer_tables

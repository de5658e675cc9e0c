// Which device owns an address. The first answer is one load; the exact one is for what that load makes suspicious.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tracker/interface/extent.h"

namespace devtrace::memory::ownership {

// Device memory is mapped in pages of 2 MiB, so a chunk of that size has one owner. Chunks of the 47 bits that a
// process on x86-64 can address; four bytes each, reserved and not committed: 256 MiB of address space.
constexpr unsigned kChunkBits = 21;
constexpr unsigned kAddressBits = 47;
constexpr int kDevices = 32;  // more than a process can have
constexpr size_t kChunks = size_t{1} << (kAddressBits - kChunkBits);

using Memory = MemoryKind;
using Extent = devtrace::Extent;

// Hot: no malloc, no lock held while calling out. An extent that starts where another does replaces it.
void add(const Extent& extent);
// True when an extent started there.
bool remove(uintptr_t address);
// Every extent that starts in [begin, end).
void remove_starting_in(uintptr_t begin, uintptr_t end);

namespace detail {
// The devices whose kernels may be given addresses in a chunk, a bit each: the owner alone, or all of them.
using Devices = uint32_t;
static_assert(kDevices <= 32);
constexpr Devices kNeverAsked = 0;         // nobody knows yet
constexpr Devices kNobodys = ~Devices{0};  // no device's: CUDA was asked, or it cannot be
constexpr Devices only(Device device) {
  return Devices{1} << device.index;
}
// Null while no kernel has been seen and nothing is owned.
[[gnu::visibility("hidden")]] extern std::atomic<std::atomic<Devices>*> chunks;
}  // namespace detail

// Hot, one load: the device whose memory lies, or last lay, in the address's chunk; unknown for all other addresses.
inline Device likely(uintptr_t address) {
  std::atomic<detail::Devices>* const chunks = detail::chunks.load(std::memory_order_relaxed);
  if (!chunks || address >> kAddressBits) return {};
  const detail::Devices devices = chunks[address >> kChunkBits].load(std::memory_order_relaxed);
  return devices == detail::kNeverAsked || devices == detail::kNobodys ? Device{}
                                                                       : Device::cuda(std::countr_zero(devices));
}

// Which devices may be given all of some words: those that own what the words lead to, where they lead to anything. One
// load and one `and` a word: a third of a nanosecond.
class Table {
 public:
  using Devices = detail::Devices;
  static constexpr Devices kAll = detail::kNobodys;

  Table() : chunks_(detail::chunks.load(std::memory_order_relaxed)) {}
  explicit operator bool() const { return chunks_ != nullptr; }

  // Whether `here` is one of them; none when somebody's owner is not known yet.
  static bool has(Devices devices, Device here) {
    return here.is_cuda() && here.index < kDevices ? (devices & detail::only(here)) != 0 : devices == kAll;
  }

  // kAll when the word is no address of any device's memory.
  Devices of(uint64_t word) const {
    const uint64_t chunk = word >> kChunkBits;
    return in(chunk < kChunks ? chunk : 0);  // chunk 0 is nobody's
  }

  // Whether it is an address of memory of the only one of `device`.
  bool alone(uint64_t word, Devices device) const {
    const uint64_t chunk = word >> kChunkBits;
    return chunk < kChunks && in(chunk) == device;
  }

  // Words of any alignment.
  Devices of_all(const void* words, size_t count) const {
    const Table table = *this;  // in registers
    const auto word = [start = static_cast<const char*>(words)](size_t index) {
      uint64_t value;
      std::memcpy(&value, start + index * sizeof value, sizeof value);
      return value;
    };
    Devices all = kAll;
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      const uint64_t a = word(i), b = word(i + 1), c = word(i + 2), d = word(i + 3);
      // One question for four: nearly all that kernels are given are addresses and small numbers.
      const uint64_t any = a | b | c | d;
      if (any >> kChunkBits == 0) continue;
      if (any >> kAddressBits)
        all &= (table.of(a) & table.of(b)) & (table.of(c) & table.of(d));
      else
        all &= (table.in(a >> kChunkBits) & table.in(b >> kChunkBits)) &
               (table.in(c >> kChunkBits) & table.in(d >> kChunkBits));
    }
    for (; i < count; ++i) all &= table.of(word(i));
    return all;
  }

 private:
  Devices in(size_t chunk) const { return chunks_[chunk].load(std::memory_order_relaxed); }

  const std::atomic<Devices>* chunks_;
};

// Makes the table, so that memory which nobody saw being allocated is asked for at a launch.
void prepare();

// Whether the address's chunk has never been asked for; and the answer that it is no device's.
bool never_asked(uintptr_t address);
void nobodys(uintptr_t address);

// The extent around the address: exact bounds, exact owner.
std::optional<Extent> extent_at(uintptr_t address);

// All that is known. Slow, and allocates.
std::vector<Extent> all();

// What was given and taken while nobody looked is not known: CUDA is asked anew.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::ownership

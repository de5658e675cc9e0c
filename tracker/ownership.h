// Which device owns an address. The first answer is one load; the exact one is for what that load makes suspicious.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tracker/device.h"

namespace devtrace::ownership {

// Device memory is mapped in pages of 2 MiB, so a chunk of that size has one owner. Chunks of the 47 bits that a
// process on x86-64 can address; one byte each, reserved and not committed: 64 MiB of address space.
constexpr unsigned kChunkBits = 21;
constexpr unsigned kAddressBits = 47;
constexpr int kDevices = 62;  // more than a process can have
constexpr size_t kChunks = size_t{1} << (kAddressBits - kChunkBits);

enum class Memory : uint8_t {
  device,   // one device's own; others may reach it only as peers
  managed,  // every device's and the host's
  pinned,   // the host's, and every device's
};

struct Extent {
  uintptr_t address = 0;
  size_t bytes = 0;
  Device device;  // of managed and pinned memory: the CPU
  Memory memory = Memory::device;
  bool asked = false;  // nobody saw it being allocated, so nobody need see it being freed: CUDA was asked for it
  uint64_t key() const { return address; }
};

// Hot: no malloc, no lock held while calling out. An extent that starts where another does replaces it.
void add(const Extent& extent);
// True when an extent started there.
bool remove(uintptr_t address);
// Every extent that starts in [begin, end).
void remove_starting_in(uintptr_t begin, uintptr_t end);

namespace detail {
extern std::atomic<std::atomic<uint8_t>*> chunks;  // null while no kernel has been seen and nothing is owned
// What the table says of a chunk, besides a device's ordinal and 1.
constexpr uint8_t kNeverAsked = 0;
constexpr uint8_t kNobodys = 63;  // no device's: CUDA was asked, or it cannot be
}  // namespace detail

// Hot, one load: the device whose memory lies, or last lay, in the address's chunk; unknown for all other addresses.
inline Device likely(uintptr_t address) {
  std::atomic<uint8_t>* const chunks = detail::chunks.load(std::memory_order_relaxed);
  if (!chunks || address >> kAddressBits) return {};
  const uint8_t owner = chunks[address >> kChunkBits].load(std::memory_order_relaxed);
  return owner == detail::kNeverAsked || owner == detail::kNobodys ? Device{} : Device::cuda(owner - 1);
}

// Devices, a bit each; and whether there are words that are nobody's, or of which nobody knows anything yet. Whose
// memory words of any alignment look like addresses of: hot, a nanosecond for two of them.
using Owners = uint64_t;
constexpr Owners kUnknown = Owners{1} << detail::kNeverAsked;
constexpr Owners kUnowned = kUnknown | Owners{1} << detail::kNobodys;
class Table {
 public:
  Table() : chunks_(detail::chunks.load(std::memory_order_relaxed)) {}
  explicit operator bool() const { return chunks_ != nullptr; }
  Owners owner(uint64_t word) const {
    const size_t chunk = word >> kAddressBits ? 0 : word >> kChunkBits;  // chunk 0 is nobody's
    return Owners{1} << (chunks_[chunk].load(std::memory_order_relaxed) & 63);
  }
  Owners owners(const void* words, size_t count) const {
    Owners all = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < count; ++i) {  // without a branch: several words are on their way at a time
      uint64_t word;
      std::memcpy(&word, static_cast<const char*>(words) + i * sizeof word, sizeof word);
      all |= owner(word);
    }
    return all;
  }
  // Others than `here`, or unknown.
  static bool elsewhere(Owners owners, Device here) {
    const Owners mine = here.is_cuda() ? Owners{1} << (here.index + 1) : 0;
    return (owners & ~(mine | Owners{1} << detail::kNobodys)) != 0;
  }

 private:
  const std::atomic<uint8_t>* chunks_;
};

// Makes the table, so that memory which nobody saw being allocated is asked for at a launch.
void prepare();

// Whether the address's chunk has never been asked for; and the answer that it is no device's.
bool never_asked(uintptr_t address);
void nobodys(uintptr_t address);

// The extent around the address: exact bounds, exact owner.
std::optional<Extent> find(uintptr_t address);

// All that is known. Slow, and allocates.
std::vector<Extent> all();

void before_fork();
void after_fork();

}  // namespace devtrace::ownership

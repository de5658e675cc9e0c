// Which device owns an address. The first answer is one load; the exact one is for what that load makes suspicious.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tracker/device.h"

namespace devtrace::ownership {

// Device memory is mapped in pages of 2 MiB, so a chunk of that size has one owner. Chunks of the 47 bits that a
// process on x86-64 can address; one byte each, reserved and not committed: 64 MiB of address space.
constexpr unsigned kChunkBits = 21;
constexpr unsigned kAddressBits = 47;
constexpr int kDevices = 63;  // more than a process can have
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
  uint64_t key() const { return address; }
};

// Hot: no malloc, no lock held while calling out. An extent that starts where another does replaces it.
void add(const Extent& extent);
// True when an extent started there.
bool remove(uintptr_t address);

namespace detail {
extern std::atomic<std::atomic<uint8_t>*> chunks;  // null while nothing is owned
}

// Hot, one load: the device whose memory lies, or last lay, in the address's chunk; unknown for all other addresses.
inline Device likely(uintptr_t address) {
  std::atomic<uint8_t>* const chunks = detail::chunks.load(std::memory_order_relaxed);
  if (!chunks || address >> kAddressBits) return {};
  const uint8_t owner = chunks[address >> kChunkBits].load(std::memory_order_relaxed);
  return owner == 0 ? Device{} : Device::cuda(owner - 1);
}

// Devices, a bit each; bit 0 is nobody. Whose memory words of any alignment look like addresses of: hot, a nanosecond
// for two of them. Bits above the 47 are not looked at: a number may be taken for an address.
using Owners = uint64_t;
constexpr Owners kNobody = 1;
class Table {
 public:
  Table() : chunks_(detail::chunks.load(std::memory_order_relaxed)) {}
  explicit operator bool() const { return chunks_ != nullptr; }
  Owners owner(uint64_t word) const {
    const size_t chunk = word << (64 - kAddressBits) >> (64 - kAddressBits + kChunkBits);
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
  static bool elsewhere(Owners owners, Device here) {
    return (owners & ~(here.is_cuda() ? Owners{1} << (here.index + 1) : 0)) > kNobody;
  }

 private:
  const std::atomic<uint8_t>* chunks_;
};

// The extent around the address: exact bounds, exact owner.
std::optional<Extent> find(uintptr_t address);

void before_fork();
void after_fork();

}  // namespace devtrace::ownership

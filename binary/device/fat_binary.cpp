// Fat binaries: a container with one image an architecture, usually compressed.
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "binary/device/formats.h"

namespace devtrace::device {
namespace {

// What __cudaRegisterFatBinary is given: magic, version, pointer to the container, and to those that it was linked of.
constexpr uint32_t kWrapper = 0x466243b1;
constexpr uint32_t kContainer = 0xba55ed50;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000, kExact = 0x100000;
constexpr uint16_t kPtx = 1, kCubin = 2;

struct Container {
  uint32_t magic;
  uint16_t version, header;
  uint64_t size;
};

// The head of an entry, as far as it is known.
struct Entry {
  uint16_t kind, version;
  uint32_t header;
  uint64_t size;
  uint32_t compressed, unknown_20;
  uint32_t unknown_24, architecture;
  uint64_t unknown_32, flags, unknown_48, uncompressed;
};
static_assert(sizeof(Entry) == 64);

// The block format of LZ4: literals, then a copy of earlier output, until the input ends.
bool unpack_lz4(const uint8_t* in, size_t size, std::vector<uint8_t>* out) {
  const uint8_t *end = in + size, *start = out->data();
  uint8_t *to = out->data(), *to_end = to + out->size();
  auto longer = [&](size_t n) {
    if (n == 15)
      for (uint8_t more = 255; more == 255 && in < end;) n += more = *in++;
    return n;
  };
  while (in < end) {
    uint8_t token = *in++;
    size_t literals = longer(token >> 4);
    if (literals > static_cast<size_t>(end - in) || literals > static_cast<size_t>(to_end - to)) return false;
    std::memcpy(to, in, literals);
    to += literals;
    in += literals;
    if (in == end) break;
    if (end - in < 2) return false;
    size_t distance = in[0] | static_cast<size_t>(in[1]) << 8;
    in += 2;
    size_t length = longer(token & 15) + 4;
    if (!distance || distance > static_cast<size_t>(to - start) || length > static_cast<size_t>(to_end - to))
      return false;
    for (; length; --length, ++to) *to = *(to - distance);
  }
  return true;
}

// Empty when it cannot be unpacked.
std::vector<uint8_t> unpack(const Entry& e, View payload) {
  std::vector<uint8_t> out;
  if (!(e.flags & (kZstd | kLz4))) {
    out.assign(payload.data, payload.data + payload.size);
    return out;
  }
  if (e.compressed > payload.size || e.uncompressed == 0 || e.uncompressed > kMostImage) return out;
  // No program shrinks more than this; a size that is a lie would be much memory for nothing.
  constexpr uint64_t kMostRatio = 1024;
  if (e.uncompressed / kMostRatio > e.compressed) return out;
  out.resize(e.uncompressed);
  const bool good = e.flags & kZstd
                        ? ZSTD_decompress(out.data(), out.size(), payload.data, e.compressed) == e.uncompressed
                        : unpack_lz4(payload.data, e.compressed, &out);
  if (!good) out.clear();
  return out;
}

struct Found {
  Entry entry;
  View payload;
};

// Calls f(Found) for each entry that lies whole in the container.
template <typename F>
void each_entry(View image, F f) {
  Container head;
  if (!image.read(0, head) || head.header > image.size) return;
  const size_t end = head.header + std::min<uint64_t>(head.size, image.size - head.header);
  Entry e;
  for (size_t at = head.header; at < end && View{image.data, end}.read(at, e);) {
    if (e.header < sizeof(Entry) || !e.size || e.header > end - at || e.size > end - at - e.header) return;
    f(Found{e, {image.data + at + e.header, e.size}});
    at += e.header + e.size;
  }
}

FatEntry unpacked(const Found& found) {
  FatEntry out;
  out.ptx = found.entry.kind == kPtx;
  out.architecture = static_cast<int>(found.entry.architecture & 0xffff);
  out.bytes = unpack(found.entry, found.payload);
  return out;
}

// Which of two entries the driver prefers on the device; 0: it does not run there. A cubin runs on its own major
// architecture from its own minor on, PTX on everything later; machine code before PTX, the nearest before the older.
int rank(const Entry& e, int device) {
  int a = static_cast<int>(e.architecture);
  if (e.kind == kCubin) {
    if (e.flags & kExact) return a == device ? 4000 : 0;
    return a / 10 == device / 10 && a <= device ? 2000 + a : 0;
  }
  if (e.kind == kPtx) {
    if (e.flags & kExact) return a == device ? 1900 : 0;
    return a <= device ? 1000 + a : 0;
  }
  return 0;
}

// Which of two entries tells more of what a kernel does on the device. First the machine code that the driver would
// load, then that for the most similar device, then PTX.
int detail_rank(const Entry& e, int device) {
  if (const int loads = rank(e, device); loads >= 2000) return 100000 + loads;
  const int a = static_cast<int>(std::min<uint32_t>(e.architecture, 9999));
  if (e.kind == kCubin) return 50000 - std::abs(a - device);
  return e.kind == kPtx ? 1 + rank(e, device) : 0;
}

}  // namespace

bool is_fat_binary(View image) {
  uint32_t magic;
  return image.read(0, magic) && magic == kContainer;
}

size_t fat_binary_bytes(View image) {
  Container head;
  if (!image.read(0, head)) return 0;
  return head.size <= image.size - std::min<size_t>(image.size, head.header) ? head.header + head.size : 0;
}

const void* unwrapped(View wrapper) {
  uint32_t magic;
  const void* inner = nullptr;
  return wrapper.read(0, magic) && magic == kWrapper && wrapper.read(8, inner) ? inner : nullptr;
}

const void* const* relocatable_list(View wrapper) {
  uint32_t magic, version;
  const void* const* list = nullptr;
  const bool has_list = wrapper.read(0, magic) && magic == kWrapper && wrapper.read(4, version) && version == 2;
  return has_list && wrapper.read(16, list) ? list : nullptr;
}

bool choose_entry(View image, int architecture, FatEntry* out, bool* unreadable) {
  Found best{};
  int best_rank = 0;
  each_entry(image, [&](const Found& found) {
    if (const int r = rank(found.entry, architecture); r > best_rank) {
      best_rank = r;
      best = found;
    }
  });
  if (!best_rank) return false;
  *out = unpacked(best);
  *unreadable = out->bytes.empty();
  return !*unreadable;
}

bool ptx_entry(View image, int architecture, FatEntry* out) {
  Found best{};
  int best_rank = 0;
  each_entry(image, [&](const Found& found) {
    if (found.entry.kind != kPtx) return;
    const int runs = rank(found.entry, architecture);
    const int r = runs ? 20000 + runs : 10000 - static_cast<int>(std::min<uint32_t>(found.entry.architecture, 9999));
    if (r <= best_rank) return;
    best_rank = r;
    best = found;
  });
  if (!best_rank) return false;
  *out = unpacked(best);
  return !out->bytes.empty();
}

bool nth_entry(View image, int architecture, size_t nth, FatEntry* out) {
  std::vector<std::pair<int, Found>> order;
  each_entry(image, [&](const Found& found) {
    if (const int t = detail_rank(found.entry, architecture); t > 0) order.emplace_back(-t, found);
  });
  if (nth >= order.size()) return false;
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  *out = unpacked(order[nth].second);
  return true;
}

}  // namespace devtrace::device

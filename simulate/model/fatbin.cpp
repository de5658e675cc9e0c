// Fat binaries: a container with one image an architecture, usually compressed.
#include <zstd.h>

#include <cstring>

#include "simulate/model/image_parts.h"

namespace devtrace::sim {
namespace {

constexpr uint32_t kWrapper =
    0x466243b1;  // what __cudaRegisterFatBinary is given: magic, version, pointer to the container
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

bool unpack(const Entry& e, const uint8_t* payload, std::vector<uint8_t>* out) {
  if (e.flags & kZstd) {
    out->resize(e.uncompressed);
    return ZSTD_decompress(out->data(), out->size(), payload, e.compressed) == e.uncompressed;
  }
  if (e.flags & kLz4) {
    out->resize(e.uncompressed);
    return unpack_lz4(payload, e.compressed, out);
  }
  out->assign(payload, payload + e.size);
  return true;
}

const uint8_t* container(const void* data) {
  uint32_t magic;
  std::memcpy(&magic, data, 4);
  if (magic == kContainer) return static_cast<const uint8_t*>(data);
  if (magic != kWrapper) return nullptr;
  const uint8_t* inner;
  std::memcpy(&inner, static_cast<const uint8_t*>(data) + 8, sizeof inner);
  return inner && container(inner) == inner ? inner : nullptr;
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

}  // namespace

bool is_fat_binary(const void* data) {
  return container(data) != nullptr;
}

bool choose_entry(const void* data, int architecture, FatEntry* out, bool* unreadable) {
  const uint8_t* at = container(data);
  Container head;
  std::memcpy(&head, at, sizeof head);
  const uint8_t* end = at + head.header + head.size;
  Entry best = {};
  const uint8_t* payload = nullptr;
  int best_rank = 0;
  for (at += head.header; at + sizeof(Entry) <= end;) {
    Entry e;
    std::memcpy(&e, at, sizeof e);
    if (e.header < sizeof(Entry) || !e.size) break;
    if (int r = rank(e, architecture); r > best_rank) {
      best_rank = r;
      best = e;
      payload = at + e.header;
    }
    at += e.header + e.size;
  }
  if (!best_rank) return false;
  out->ptx = best.kind == kPtx;
  out->architecture = static_cast<int>(best.architecture);
  out->exact = best.flags & kExact;
  *unreadable = !unpack(best, payload, &out->bytes);
  if (out->ptx) out->bytes.push_back(0);
  return !*unreadable;
}

}  // namespace devtrace::sim

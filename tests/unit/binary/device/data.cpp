#include "tests/unit/binary/device/data.h"

#include <zstd.h>

#include <cstring>

namespace data {
namespace {

template <typename T>
void put(Image& image, size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}

}  // namespace

Image fat_binary(const std::vector<FatBinaryEntry>& entries) {
  Image all(16);
  for (const FatBinaryEntry& e : entries) {
    const size_t at = all.size();
    all.resize(at + 64 + e.packed.size());
    put<uint16_t>(all, at, e.ptx ? 1 : 2);
    put<uint32_t>(all, at + 4, 64);
    put<uint64_t>(all, at + 8, e.packed.size());
    put<uint32_t>(all, at + 16, e.flags ? static_cast<uint32_t>(e.packed.size()) : 0);
    put<uint32_t>(all, at + 28, static_cast<uint32_t>(e.architecture));
    put<uint64_t>(all, at + 40, e.flags);
    put<uint64_t>(all, at + 56, e.flags ? e.bytes : 0);
    std::copy(e.packed.begin(), e.packed.end(), all.begin() + static_cast<std::ptrdiff_t>(at) + 64);
  }
  put<uint32_t>(all, 0, 0xba55ed50);
  put<uint16_t>(all, 4, 1);
  put<uint16_t>(all, 6, 16);
  put<uint64_t>(all, 8, all.size() - 16);
  return all;
}

FatBinaryEntry plain(int architecture) {
  return {false, architecture, 0, cubin(architecture), 0};
}

FatBinaryEntry with_zstd(int architecture) {
  const Image whole = cubin(architecture);
  FatBinaryEntry e{false, architecture, 0x8000, Image(ZSTD_compressBound(whole.size())), whole.size()};
  e.packed.resize(ZSTD_compress(e.packed.data(), e.packed.size(), whole.data(), whole.size(), 1));
  return e;
}

FatBinaryEntry with_lz4(int architecture) {
  const Image whole = cubin(architecture);
  FatBinaryEntry e{false, architecture, 0x2000, {0xf0}, whole.size()};
  size_t left = whole.size() - 15;
  for (; left >= 255; left -= 255) e.packed.push_back(255);
  e.packed.push_back(static_cast<uint8_t>(left));
  e.packed.insert(e.packed.end(), whole.begin(), whole.end());
  return e;
}

FatBinaryEntry as_ptx() {
  return {true, 75, 0, ptx(), 0};
}

}  // namespace data

// Real images to read: kernels.ptx, compiled when the tests are built.
#pragma once

#include <unistd.h>

#include <climits>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "binary/device/image.h"

namespace data {

using Image = std::vector<uint8_t>;

inline const std::vector<int> kArchitectures = {75, 80, 90, 100};

inline Image file(const std::string& name) {
  char self[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", self, sizeof self - 1) < 0) return {};
  const std::string path(self);
  std::ifstream in(path.substr(0, path.rfind('/')) + "/device-data/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline Image cubin(int architecture) {
  return file("sm_" + std::to_string(architecture) + ".cubin");
}
inline Image ptx() {
  return file("kernels.ptx");
}

inline devtrace::binary::View span(const Image& image) {
  return {image.data(), image.size()};
}

// One entry of a fat binary, and the fat binary of several.
struct FatBinaryEntry {
  bool ptx = false;
  int architecture = 0;
  uint64_t flags = 0;  // how `packed` is packed
  Image packed;
  size_t bytes = 0;  // unpacked
};
Image fat_binary(const std::vector<FatBinaryEntry>& entries);
FatBinaryEntry plain(int architecture);
FatBinaryEntry with_zstd(int architecture);
FatBinaryEntry with_lz4(int architecture);  // literals only
FatBinaryEntry as_ptx();

}  // namespace data

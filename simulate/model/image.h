// Reading kernels out of what programs load: cubins, PTX and fat binaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace devtrace::sim {

struct Parameter {
  size_t offset = 0, size = 0;  // bytes in the kernel's parameter block
};

struct KernelFacts {
  std::vector<Parameter> parameters;
  bool parameters_known = false;
  int registers = 32;
  int static_shared = 0, constant = 0, local = 0;  // bytes
  int max_threads = 1024;                          // a block
  int architecture = 0;                            // 90 for sm_90; 0: the part's own
  int ptx = 0;
};

struct Image {
  std::unordered_map<std::string, KernelFacts> kernels;
  std::unordered_map<std::string, size_t> variables;  // name → bytes
  bool opaque = false;  // recognised, but its names could not be read: any name is taken to exist
};

// `architecture`: the device's, 90 for 9.0: of several cubins in a fat binary the best one that runs there is read.
// False when `data` is none of the formats. Sizes are in the formats themselves.
bool read_image(const void* data, int architecture, Image* image);
// Bytes that belong to the image at `data`; 0 when it is none.
size_t image_size(const void* data);

}  // namespace devtrace::sim

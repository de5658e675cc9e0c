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

// Half-open range of the parameter block.
struct Bytes {
  size_t begin = 0, end = 0;
};

struct KernelFacts {
  std::vector<Parameter> parameters;
  bool parameters_known = false;
  // What the kernel's code reads of its parameters at fixed places and may use as an address: sorted, disjoint. A value
  // that is passed and never read (an empty function object, a reference nobody follows) may be anything.
  std::vector<Bytes> reads;
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

enum class ImageState {
  good,
  unknown,             // none of the formats
  other_architecture,  // a fat binary with nothing that runs on the device
};

// `architecture`: the device's, 90 for 9.0: of several images in a fat binary the one that the driver would load is
// read. Sizes are in the formats themselves.
ImageState read_image(const void* data, int architecture, Image* image);

}  // namespace devtrace::sim

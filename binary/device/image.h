// Reading kernels out of what programs load: cubins, PTX and fat binaries.
//
// What is read lies in a user's process and may be torn or hostile. No read leaves the bytes that the caller vouches
// for, and nothing takes more memory than the limits below. The functions may throw std::bad_alloc and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binary/device/array.h"
#include "binary/device/parameter.h"
#include "binary/view.h"

namespace devtrace::device {

using binary::View;

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
  // Words of these that the code certainly goes to memory with: loads or stores through them, or through a sum of one
  // of them and numbers. Tidy, aligned. What is not here may be followed all the same.
  std::vector<Bytes> follows;
  // Words that it goes to memory with on a condition of its own: a predicate of the load or store itself. Tidy,
  // aligned.
  std::vector<Bytes> follows_perhaps;
  // Words that it certainly writes through, always or on a condition: stores and atomics. Tidy, aligned.
  std::vector<Bytes> writes;
  bool writes_elsewhere = false;  // it also writes to global memory by an address that could not be followed
  // Words that it reads at places that depend on the block.
  std::vector<Array> arrays;
  int registers = 32;
  int static_shared = 0, constant = 0, local = 0;  // bytes
  int max_threads = 1024;                          // a block
  int architecture = 0;                            // 90 for sm_90; 0: the part's own
  int ptx = 0;

  // Whether the code may use the word at this offset of the parameter block as an address.
  bool reads_address(size_t offset) const;
  // Whether it certainly does, at some point, on the way that it takes.
  bool follows_address(size_t offset) const;
  // Whether all that is seen of it going there is on a condition.
  bool follows_address_perhaps(size_t offset) const;
  // The array that the word is in, if only some launches use it; null: none.
  const Array* array_at(size_t offset) const;
};

// A word of a variable that holds another variable's address.
struct AddressOf {
  size_t offset = 0;
  std::string variable;
  int64_t addend = 0;
};

struct Variable {
  size_t bytes = 0;
  bool managed = false;          // one for the host and all devices
  std::vector<uint8_t> initial;  // its beginning; what is not here is zero
  std::vector<AddressOf> addresses;
};

struct Image {
  std::unordered_map<std::string, KernelFacts> kernels;
  std::unordered_map<std::string, Variable> variables;
  bool opaque = false;  // recognised, but its names could not be read: any name is taken to exist
};

enum class ImageState {
  good,
  unknown,             // none of the formats
  other_architecture,  // a fat binary with nothing that runs on the device
};

// The image behind what a program hands to CUDA: a cubin, PTX, a fat binary, or the wrapper that nvcc puts around one.
// Its size is what the image's own head says: true of what CUDA has accepted, and no more than `most`, the bytes known
// to be readable. Empty when it is none of the formats.
View image_at(const void* data, size_t most = SIZE_MAX);

// The images that nvcc -rdc=true leaves for the driver to link where it finds no machine code for its device: behind a
// wrapper of that version. What is no such wrapper: none.
std::vector<const void*> relocatable_images(const void* wrapper);

// Everything in an image. `architecture`: the device's, 90 for 9.0: of several images in a fat binary the one that the
// driver would load is read.
ImageState read_image(View image, int architecture, Image* out);

// The text of an image's PTX: for the device, else for another one. `packed`: out of a fat binary, where comments are
// left out.
struct PtxText {
  std::string text;
  bool packed = false;
};
// False: it has none.
bool read_ptx_text(View image, int architecture, PtxText* out);

// One kernel, as cheaply as the format allows. Of a fat binary the machine code for the device is read, else that for
// another device, else PTX. What a kernel does with its parameters is much the same in all of them.
bool read_kernel(View image, int architecture, std::string_view name, KernelFacts* out);

}  // namespace devtrace::device

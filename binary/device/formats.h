// The formats behind read_image() and read_kernel(), one file each.
#pragma once

#include "binary/device/image.h"

namespace devtrace::device {

// More than any compiler leaves behind: what claims to be larger is not read.
constexpr size_t kMostImage = size_t{1} << 30;     // bytes of one image, unpacked
constexpr size_t kMostParameters = 4096;           // of one kernel
constexpr size_t kMostParameterBytes = 64 * 1024;  // of one kernel

// A cubin: a 64-bit ELF object for one architecture.
bool is_cubin(View image);
// Bytes up to the end of its last section; 0 when that lies beyond `image`.
size_t cubin_bytes(View image);
// `only`: the one kernel to read, empty: all, and variables.
bool read_cubin(View image, std::string_view only, Image* out);

// The code of one kernel, of Volta (70) or later. `bank`: where its parameters lie in constant bank 0; `numbers`: bank
// 2, where compilers of before Hopper keep numbers that no instruction has room for.
void read_machine_code(View code, unsigned architecture, Bytes bank, View numbers, KernelFacts* out);

// Sorts ranges and joins those that touch.
void tidy(std::vector<Bytes>* ranges);
// Takes tidy ranges out of tidy ones.
void subtract(std::vector<Bytes>* from, const std::vector<Bytes>& what);

// PTX text that ends with a zero or with the image.
bool is_ptx(View image);
void read_ptx(View image, std::string_view only, Image* out);

// One image out of a fat binary.
struct FatEntry {
  bool ptx = false;
  int architecture = 0;        // 90 for sm_90
  std::vector<uint8_t> bytes;  // unpacked
};
// The container itself, without the wrapper around it.
bool is_fat_binary(View image);
size_t fat_binary_bytes(View image);
// The container that a wrapper points to; empty when it is no wrapper.
const void* unwrapped(View wrapper);
// The list of containers that a wrapper of version 2 points to, up to a null; null when it is none.
const void* const* relocatable_list(View wrapper);
// The entry that the driver would load on `architecture`: false when none runs there, or it cannot be unpacked
// (`*unreadable`).
bool choose_entry(View image, int architecture, FatEntry* entry, bool* unreadable);
// The newest PTX that runs on `architecture`, else the oldest there is; false: none, or it cannot be unpacked.
bool ptx_entry(View image, int architecture, FatEntry* entry);
// Entry number `nth` in the order in which they tell most of a kernel on `architecture`; false past the last. An entry
// that cannot be unpacked is empty.
bool nth_entry(View image, int architecture, size_t nth, FatEntry* entry);

}  // namespace devtrace::device

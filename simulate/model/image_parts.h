// The formats behind read_image(), one file each.
#pragma once

#include <cstdint>
#include <vector>

#include "simulate/model/image.h"

namespace devtrace::sim {

// A cubin: a 64-bit ELF object for one architecture.
bool is_cubin(const uint8_t* data);
bool read_cubin(const uint8_t* data, size_t size, Image* image);

// Sorts ranges and joins those that touch.
void tidy(std::vector<Bytes>* ranges);
// Takes tidy ranges out of tidy ones.
void subtract(std::vector<Bytes>* from, const std::vector<Bytes>& what);

// PTX text that ends with a zero or after `size` bytes.
bool is_ptx(const char* text);
void read_ptx(const char* text, size_t size, Image* image);

// One image out of a fat binary.
struct FatEntry {
  bool ptx = false;
  int architecture = 0;  // 90 for sm_90
  bool exact = false;    // sm_90a and the like: runs on that architecture only
  std::vector<uint8_t> bytes;
};
bool is_fat_binary(const void* data);
// The entry that the driver would load on `architecture`: false when none runs there, or it cannot be decompressed
// (`*unreadable`).
bool choose_entry(const void* data, int architecture, FatEntry* entry, bool* unreadable);

}  // namespace devtrace::sim

// An array in a kernel's parameters of which each block takes one entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace devtrace::device {

// Who launches sets as many entries as its blocks take. PyTorch leaves the others as they were on the stack, often with
// the addresses of the launch before, which may have been on another device.
struct Array {
  size_t begin = 0, end = 0;  // of its addresses: bytes of the parameter block
  size_t stride = 8;          // bytes from one to the next
  int dimension = 0;          // of the grid: the block's number there is the entry's,
  size_t table = 0;           // or the entry's number stands under it in a table at this offset,
  size_t table_width = 0;     // of so many bytes each; 0: there is none
  bool followed = false;      // the code certainly goes to memory with the entry that a block takes

  bool operator==(const Array&) const = default;
  bool holds(size_t offset) const { return offset >= begin && offset < end && (offset - begin) % stride == 0; }

  size_t entry_at(size_t offset) const { return (offset - begin) / stride; }

  // Whether a block of that grid takes the entry at `offset`. `read(offset, bytes)`: a number of the parameter block,
  // std::nullopt where it is not at hand; then, as with a grid that nobody knows (0), any entry may be taken.
  template <class Read>
  bool takes(size_t offset, const unsigned (&grid)[3], const Read& read) const {
    const size_t entry = entry_at(offset), blocks = grid[dimension];
    if (blocks == 0) return true;
    if (table_width == 0) return entry < blocks;
    for (size_t block = 0; block < blocks; ++block) {
      const std::optional<uint64_t> number = read(table + block * table_width, table_width);
      if (!number || *number == entry) return true;
    }
    return false;
  }
};

}  // namespace devtrace::device

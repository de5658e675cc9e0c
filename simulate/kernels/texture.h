// Textures and surfaces: memory that kernels read, and write, by coordinates, as CUDA's programming guide says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace devtrace::simulate::kernels {

struct Texture {
  enum class Format : uint8_t { u8, s8, u16, s16, u32, s32, f16, f32 };
  enum class Edge : uint8_t { wrap, clamp, mirror, border };  // CUaddress_mode's numbers

  uint8_t* data = nullptr;
  // Elements of each row, rows of a slice, and slices; a slice is a layer or a cube's face where there are such.
  uint32_t size[3] = {1, 1, 1};
  size_t pitch = 0, slice = 0;  // bytes
  Format format = Format::f32;
  uint8_t channels = 1;
  bool integers = false;    // numbers of 8 and 16 bits as they are, not as parts of 1
  bool linear = false;      // between elements, else the nearest
  bool normalized = false;  // coordinates: 1 is the size
  Edge edges[3] = {Edge::clamp, Edge::clamp, Edge::clamp};
  float border[4] = {};

  size_t element_bytes() const;
  // Null: outside.
  uint8_t* element(int64_t x, int64_t y, int64_t z) const;
};

// What a coordinate outside of `size` elements means; -1: the border.
int64_t at_edge(int64_t at, int64_t size, Texture::Edge edge);

// The four channels at a coordinate of `dimensions` numbers, in one slice of those of one or two dimensions: as floats'
// bits, or as integers.
void sample(const Texture& t, int dimensions, const float at[3], int64_t slice, bool floats, uint32_t out[4]);
// One channel of the four elements that are filtered between: (0,1), (1,1), (1,0), (0,0).
void gather(const Texture& t, const float at[2], int channel, bool floats, uint32_t out[4]);
// An element by its number.
void fetch(const Texture& t, int64_t x, int64_t y, int64_t z, bool floats, uint32_t out[4]);
// The face that a direction meets, and where on it.
int face_of(const float direction[3], float at[2]);

}  // namespace devtrace::simulate::kernels

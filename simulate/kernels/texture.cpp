#include "simulate/kernels/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {
namespace {

using Format = Texture::Format;

constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 2, 4};  // by Format

struct Channels {
  float values[4] = {};
};

int64_t integer(Format format, const uint8_t* at) {
  uint32_t word = 0;
  std::memcpy(&word, at, kBytes[static_cast<size_t>(format)]);
  switch (format) {
    case Format::s8:
      return static_cast<int8_t>(word);
    case Format::s16:
      return static_cast<int16_t>(word);
    case Format::s32:
      return static_cast<int32_t>(word);
    default:
      return word;
  }
}

float number(const Texture& t, const uint8_t* at) {
  switch (t.format) {
    case Format::f32:
      return std::bit_cast<float>(static_cast<uint32_t>(integer(t.format, at)));
    case Format::f16:
      return half_to_float(static_cast<uint16_t>(integer(t.format, at)));
    default:
      break;
  }
  const auto value = static_cast<float>(integer(t.format, at));
  constexpr float kMost[] = {255, 127, 65535, 32767, 0, 0};
  const float most = kMost[static_cast<size_t>(t.format)];
  return t.integers || most == 0 ? value : std::max(value / most, -1.0f);
}

Channels channels_at(const Texture& t, int64_t x, int64_t y, int64_t z) {
  Channels found;
  const uint8_t* const element = t.element(x, y, z);
  for (size_t i = 0; i < (element ? t.channels : size_t{4}); ++i)
    found.values[i] = element ? number(t, element + i * kBytes[static_cast<size_t>(t.format)]) : t.border[i];
  return found;
}

// Elements between which a coordinate lies, and how far: hardware has 8 bits for that.
struct Between {
  int64_t first, second;
  float part;
};

float scaled(const Texture& t, int dimension, float at) {
  const float elements = at * (t.normalized ? static_cast<float>(t.size[dimension]) : 1.0f);
  // What is no number, or beyond all elements, is on an edge.
  constexpr float kMost = 1 << 30;
  return elements == elements ? std::min(std::max(elements, -kMost), kMost) : 0.0f;
}

Texture::Edge edge_of(const Texture& t, int dimension) {
  const Texture::Edge edge = t.edges[dimension];
  const bool repeats = edge == Texture::Edge::wrap || edge == Texture::Edge::mirror;
  return repeats && !t.normalized ? Texture::Edge::clamp : edge;
}

Between between(const Texture& t, int dimension, float at) {
  const float moved = scaled(t, dimension, at) - 0.5f, below = std::floor(moved);
  const auto first = static_cast<int64_t>(below);
  const Texture::Edge edge = edge_of(t, dimension);
  return {at_edge(first, t.size[dimension], edge), at_edge(first + 1, t.size[dimension], edge),
          std::round((moved - below) * 256.0f) / 256.0f};
}

}  // namespace

size_t Texture::element_bytes() const {
  return channels * kBytes[static_cast<size_t>(format)];
}

uint8_t* Texture::element(int64_t x, int64_t y, int64_t z) const {
  if (x < 0 || y < 0 || z < 0 || x >= size[0] || y >= size[1] || z >= size[2]) return nullptr;
  return data + static_cast<size_t>(z) * slice + static_cast<size_t>(y) * pitch +
         static_cast<size_t>(x) * element_bytes();
}

int64_t at_edge(int64_t at, int64_t size, Texture::Edge edge) {
  switch (edge) {
    case Texture::Edge::wrap:
      return (at % size + size) % size;
    case Texture::Edge::mirror: {
      const int64_t both = (at % (2 * size) + 2 * size) % (2 * size);
      return both < size ? both : 2 * size - 1 - both;
    }
    case Texture::Edge::border:
      return at < 0 || at >= size ? -1 : at;
    default:
      return std::clamp<int64_t>(at, 0, size - 1);
  }
}

void fetch(const Texture& t, int64_t x, int64_t y, int64_t z, bool floats, uint32_t out[4]) {
  std::fill_n(out, 4, 0u);
  if (floats) {
    const Channels found = channels_at(t, x, y, z);
    for (int i = 0; i < 4; ++i) out[i] = std::bit_cast<uint32_t>(found.values[i]);
    return;
  }
  const uint8_t* const element = t.element(x, y, z);
  for (size_t i = 0; element && i < t.channels; ++i)
    out[i] = static_cast<uint32_t>(integer(t.format, element + i * kBytes[static_cast<size_t>(t.format)]));
}

void sample(const Texture& t, int dimensions, const float at[3], int64_t slice, bool floats, uint32_t out[4]) {
  if (!t.linear || !floats) {
    int64_t whole[3] = {0, 0, slice};
    for (int i = 0; i < dimensions; ++i)
      whole[i] = at_edge(static_cast<int64_t>(std::floor(scaled(t, i, at[i]))), t.size[i], edge_of(t, i));
    return fetch(t, whole[0], whole[1], whole[2], floats, out);
  }
  Between ends[3] = {{0, 0, 0}, {0, 0, 0}, {slice, slice, 0}};
  for (int i = 0; i < dimensions; ++i) ends[i] = between(t, i, at[i]);
  float sums[4] = {};
  for (unsigned corner = 0; corner < 1u << dimensions; ++corner) {
    float weight = 1;
    int64_t whole[3] = {0, 0, slice};
    for (int i = 0; i < dimensions; ++i) {
      const bool second = corner >> i & 1;
      weight *= second ? ends[i].part : 1 - ends[i].part;
      whole[i] = second ? ends[i].second : ends[i].first;
    }
    if (weight == 0) continue;
    const Channels found = channels_at(t, whole[0], whole[1], whole[2]);
    for (int i = 0; i < 4; ++i) sums[i] += weight * found.values[i];
  }
  for (int i = 0; i < 4; ++i) out[i] = std::bit_cast<uint32_t>(sums[i]);
}

void gather(const Texture& t, const float at[2], int channel, bool floats, uint32_t out[4]) {
  const Between x = between(t, 0, at[0]), y = between(t, 1, at[1]);
  const int64_t corners[4][2] = {{x.first, y.second}, {x.second, y.second}, {x.second, y.first}, {x.first, y.first}};
  for (int i = 0; i < 4; ++i) {
    uint32_t found[4];
    fetch(t, corners[i][0], corners[i][1], 0, floats, found);
    out[i] = found[channel];
  }
}

int face_of(const float direction[3], float at[2]) {
  const float x = direction[0], y = direction[1], z = direction[2];
  const float sizes[] = {std::fabs(x), std::fabs(y), std::fabs(z)};
  const int axis = sizes[0] >= sizes[1] && sizes[0] >= sizes[2] ? 0 : sizes[1] >= sizes[2] ? 1 : 2;
  const bool negative = direction[axis] < 0;
  const float s = axis == 0 ? (negative ? z : -z) : axis == 1 ? x : (negative ? -x : x);
  const float t = axis == 1 ? (negative ? -z : z) : -y;
  at[0] = (s / sizes[axis] + 1) / 2;
  at[1] = (t / sizes[axis] + 1) / 2;
  return 2 * axis + negative;
}

}  // namespace devtrace::simulate::kernels

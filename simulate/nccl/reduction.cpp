#include "simulate/nccl/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace devtrace::simulate::nccl {
namespace {

// A type of which only the bits are stored; sums are taken in float.
struct Half {
  using Sum = float;
  uint16_t bits;

  static float read(Half half) {
    const uint32_t sign = uint32_t{half.bits & 0x8000u} << 16, exponent = (half.bits >> 10) & 31,
                   low = half.bits & 1023;
    if (exponent == 0) {
      const float value = std::ldexp(static_cast<float>(low), -24);
      return sign ? -value : value;
    }
    return std::bit_cast<float>(sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | low << 13);
  }

  // To the nearest, ties to even.
  static Half write(float value) {
    const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000);
    const float size = std::fabs(value);
    if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7e00)};
    if (size >= 65520) return {static_cast<uint16_t>(sign | 0x7c00)};
    int exponent = 0;
    std::frexp(size, &exponent);
    const int step = size == 0 ? -24 : std::max(exponent - 11, -24);  // of the last bit
    const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -step)));
    // A mantissa that was rounded up to the next power of two carries into the exponent by itself.
    const uint32_t bits = step == -24 ? units : (static_cast<uint32_t>(step + 24) << 10) + units;
    return {static_cast<uint16_t>(sign | bits)};
  }
};

struct Bfloat16 {
  using Sum = float;
  uint16_t bits;
  static float read(Bfloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
  static Bfloat16 write(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  }
};

template <class T>
struct Plain {
  using Sum = T;
  T value;
  static T read(Plain plain) { return plain.value; }
  static Plain write(T value) { return {value}; }
};

// 8-bit floating point as NVIDIA writes it: to the nearest, ties to even. What is too great becomes the greatest
// number.
template <int kMantissa, int kBias, uint8_t kGreatest>
struct Float8 {
  using Sum = float;
  uint8_t bits;
  static float read(Float8 value) {
    const int size = value.bits & 0x7f, exponent = size >> kMantissa, low = size & ((1 << kMantissa) - 1);
    float found = exponent ? std::ldexp(static_cast<float>(low + (1 << kMantissa)), exponent - kBias - kMantissa)
                           : std::ldexp(static_cast<float>(low), 1 - kBias - kMantissa);
    if (size > kGreatest) found = kMantissa == 3 || low ? NAN : INFINITY;  // E4M3 has no infinity
    return value.bits & 0x80 ? -found : found;
  }
  static Float8 write(float value) {
    const auto sign = static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 24 & 0x80);
    if (std::isnan(value)) return {static_cast<uint8_t>(sign | 0x7f)};
    const float size = std::min(std::fabs(value), read({kGreatest}));
    constexpr int kLeast = 1 - kBias - kMantissa;
    int exponent = 0;
    std::frexp(size, &exponent);
    const int step = size == 0 ? kLeast : std::max(exponent - 1 - kMantissa, kLeast);  // of the last bit
    const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -step)));
    const uint32_t bits = (static_cast<uint32_t>(step - kLeast) << kMantissa) + units;
    return {static_cast<uint8_t>(sign | bits)};
  }
};
using E4m3 = Float8<3, 7, 0x7e>;
using E5m2 = Float8<2, 15, 0x7b>;

struct Add {
  template <class Sum>
  static Sum of(Sum a, Sum b) {
    return static_cast<Sum>(a + b);
  }
};
struct Multiply {
  template <class Sum>
  static Sum of(Sum a, Sum b) {
    return static_cast<Sum>(a * b);
  }
};
struct Greater {
  template <class Sum>
  static Sum of(Sum a, Sum b) {
    return b > a || b != b ? b : a;
  }
};
struct Less {
  template <class Sum>
  static Sum of(Sum a, Sum b) {
    return b < a || b != b ? b : a;
  }
};

// In pieces that stay in the nearest cache: `out` is written once.
template <class Element, class Op>
void reduce_by(const std::vector<const void*>& parts, void* out, size_t count, bool average) {
  using Sum = typename Element::Sum;
  constexpr size_t kPiece = 1024;
  Sum sums[kPiece];
  for (size_t first = 0; first < count; first += kPiece) {
    const size_t size = std::min(kPiece, count - first);
    const auto* from = static_cast<const Element*>(parts[0]) + first;
    for (size_t i = 0; i < size; ++i) sums[i] = Element::read(from[i]);
    for (size_t part = 1; part < parts.size(); ++part) {
      from = static_cast<const Element*>(parts[part]) + first;
      for (size_t i = 0; i < size; ++i) sums[i] = Op::template of<Sum>(sums[i], Element::read(from[i]));
    }
    if (average)
      for (size_t i = 0; i < size; ++i) sums[i] = static_cast<Sum>(sums[i] / static_cast<Sum>(parts.size()));
    auto* const to = static_cast<Element*>(out) + first;
    for (size_t i = 0; i < size; ++i) to[i] = Element::write(sums[i]);
  }
}

template <class Element>
void reduce_as(const std::vector<const void*>& parts, void* out, size_t count, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return reduce_by<Element, Multiply>(parts, out, count, false);
    case ncclMax:
      return reduce_by<Element, Greater>(parts, out, count, false);
    case ncclMin:
      return reduce_by<Element, Less>(parts, out, count, false);
    default:
      return reduce_by<Element, Add>(parts, out, count, op == ncclAvg);
  }
}

template <class Element>
void scale_as(void* part, size_t count, const void* by) {
  using Sum = typename Element::Sum;
  Element factor;
  std::memcpy(&factor, by, sizeof factor);
  auto* const elements = static_cast<Element*>(part);
  for (size_t i = 0; i < count; ++i)
    elements[i] = Element::write(static_cast<Sum>(Element::read(elements[i]) * Element::read(factor)));
}

struct Type {
  const char* name;
  size_t size;
  void (*reduce)(const std::vector<const void*>&, void*, size_t, ncclRedOp_t);
  void (*scale)(void*, size_t, const void*);
};
template <class Element>
constexpr Type type(const char* name) {
  return {name, sizeof(Element), reduce_as<Element>, scale_as<Element>};
}

// By ncclDataType_t.
constexpr Type kTypes[] = {
    type<Plain<int8_t>>("int8"),     type<Plain<uint8_t>>("uint8"), type<Plain<int32_t>>("int32"),
    type<Plain<uint32_t>>("uint32"), type<Plain<int64_t>>("int64"), type<Plain<uint64_t>>("uint64"),
    type<Half>("float16"),           type<Plain<float>>("float32"), type<Plain<double>>("float64"),
    type<Bfloat16>("bfloat16"),      type<E4m3>("float8_e4m3"),     type<E5m2>("float8_e5m2"),
};

const Type* type_of(ncclDataType_t type) {
  const auto at = static_cast<size_t>(type);
  return at < std::size(kTypes) ? &kTypes[at] : nullptr;
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  const Type* found = type_of(type);
  return found ? found->size : 0;
}

const char* name_of(ncclDataType_t type) {
  const Type* found = type_of(type);
  return found ? found->name : "?";
}

bool is_floating(ncclDataType_t type) {
  return type == ncclFloat16 || type >= ncclFloat32;  // float64, bfloat16 and the two of 8 bits come last
}

bool can_reduce(ncclDataType_t type, ncclRedOp_t op) {
  return type_of(type) && op >= ncclSum && op < ncclNumOps;
}

void reduce(const std::vector<const void*>& parts, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  type_of(type)->reduce(parts, out, count, op);
}

void scale(void* part, size_t count, ncclDataType_t type, const Scale& scale) {
  if (scale.scales) type_of(type)->scale(part, count, scale.at ? scale.at : scale.value);
}

}  // namespace devtrace::simulate::nccl

#include "simulate/nccl/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

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

template <class Sum>
Sum combine(Sum a, Sum b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<Sum>(a * b);
    case ncclMax:
      return b > a || b != b ? b : a;
    case ncclMin:
      return b < a || b != b ? b : a;
    default:
      return static_cast<Sum>(a + b);
  }
}

template <class Element>
void reduce_as(const std::vector<const void*>& parts, void* out, size_t count, ncclRedOp_t op) {
  using Sum = typename Element::Sum;
  for (size_t i = 0; i < count; ++i) {
    Sum sum = Element::read(static_cast<const Element*>(parts[0])[i]);
    for (size_t part = 1; part < parts.size(); ++part)
      sum = combine<Sum>(sum, Element::read(static_cast<const Element*>(parts[part])[i]), op);
    if (op == ncclAvg) sum = static_cast<Sum>(sum / static_cast<Sum>(parts.size()));
    static_cast<Element*>(out)[i] = Element::write(sum);
  }
}

struct Type {
  size_t size;
  void (*reduce)(const std::vector<const void*>&, void*, size_t, ncclRedOp_t);
};

// By ncclDataType_t.
constexpr Type kTypes[] = {
    {1, reduce_as<Plain<int8_t>>},
    {1, reduce_as<Plain<uint8_t>>},
    {4, reduce_as<Plain<int32_t>>},
    {4, reduce_as<Plain<uint32_t>>},
    {8, reduce_as<Plain<int64_t>>},
    {8, reduce_as<Plain<uint64_t>>},
    {2, reduce_as<Half>},
    {4, reduce_as<Plain<float>>},
    {8, reduce_as<Plain<double>>},
    {2, reduce_as<Bfloat16>},
    {1, nullptr},
    {1, nullptr},
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

bool can_reduce(ncclDataType_t type, ncclRedOp_t op) {
  const Type* found = type_of(type);
  return found && found->reduce && op >= ncclSum && op < ncclNumOps;
}

void reduce(const std::vector<const void*>& parts, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  type_of(type)->reduce(parts, out, count, op);
}

}  // namespace devtrace::simulate::nccl

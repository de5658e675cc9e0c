// cvt: from any type of number to any other.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/rounding.h"
#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {
namespace {

// How a number becomes whole: the modifier's last letters.
enum Whole : uint8_t { kNearest, kZero, kDown, kUp };

double whole(double x, uint8_t how) {
  switch (how) {
    case kNearest:
      return std::nearbyint(x);
    case kZero:
      return std::trunc(x);
    case kDown:
      return std::floor(x);
    default:
      return std::ceil(x);
  }
}

// Types as the conversions see them: their bits, and the value.
struct F16 {
  using Bits = uint16_t;
  static double value(Bits b) { return static_cast<double>(half_to_float(b)); }
  static Bits bits(double x) { return half_of(x); }
};
struct Bf16 {
  using Bits = uint16_t;
  static double value(Bits b) { return static_cast<double>(bfloat_to_float(b)); }
  static Bits bits(double x) { return bfloat_of(static_cast<float>(x)); }
};
struct F32 {
  using Bits = float;
  static double value(Bits b) { return static_cast<double>(b); }
  static Bits bits(double x) { return static_cast<float>(x); }
};
struct F64 {
  using Bits = double;
  static double value(Bits b) { return b; }
  static Bits bits(double x) { return x; }
};

// Whole numbers are clamped to what the type holds, NaN is 0 (and of 64 bits 1 << 63).
template <class D>
D to_whole(double x, bool from_double) {
  if (std::isnan(x)) return from_double && sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << 63) : D{0};
  constexpr double kLow = static_cast<double>(std::numeric_limits<D>::min());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<D>::max());
  if (x <= kLow) return std::numeric_limits<D>::min();
  if (x >= kHigh) return std::numeric_limits<D>::max();
  return static_cast<D>(x);
}

template <class D, class S>
void integer_to_integer(Machine& m, const Step& s) {
  map1<D, S>(m, s, [](S a) { return static_cast<D>(a); });
}
template <class D, class S>
void integer_saturated(Machine& m, const Step& s) {
  map1<D, S>(m, s, [](S a) {
    if (std::cmp_less(a, std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (std::cmp_greater(a, std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return static_cast<D>(a);
  });
}
template <class D, class S>
void integer_to_real(Machine& m, const Step& s) {
  map1<typename D::Bits, S>(m, s, [](S a) {
    if constexpr (std::is_same_v<D, F32>) return static_cast<float>(a);
    return D::bits(static_cast<double>(a));
  });
}
template <class D, class S>
void real_to_integer(Machine& m, const Step& s) {
  constexpr bool kDouble = std::is_same_v<S, F64>;
  map1<D, typename S::Bits>(m, s, [how = s.mode, flush = s.mode2](typename S::Bits a) {
    double x = S::value(a);
    if (flush && std::fabs(x) < 0x1p-126) x = 0;
    return to_whole<D>(whole(x, how), kDouble);
  });
}
// mode: whole, or kAsIs; mode2: bit 0 saturate, bit 1 subnormals are zero, bit 2 relu.
constexpr uint8_t kAsIs = 9;
template <class D, class S>
void real_to_real(Machine& m, const Step& s) {
  map1<typename D::Bits, typename S::Bits>(m, s, [how = s.mode, flags = s.mode2](typename S::Bits a) {
    double x = S::value(a);
    if (flags & 2 && std::fabs(x) < 0x1p-126) x = std::copysign(0.0, x);
    if (how != kAsIs) x = whole(x, how);
    if (flags & 1) x = x > 0 ? std::min(x, 1.0) : 0;
    if (flags & 4) x = std::isnan(x) ? x : std::max(x, 0.0);
    return D::bits(x);
  });
}

bool is_integer(Type type) {
  const char kind = ptx::facts(type).kind;
  return kind == 'u' || kind == 's' || (kind == 'b' && ptx::bytes_of(type) <= 8);
}
bool is_real(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

template <class F>
Handler by_real(Type type, F f) {
  switch (type) {
    case Type::f16:
      return f(F16());
    case Type::bf16:
      return f(Bf16());
    case Type::f32:
      return f(F32());
    case Type::f64:
      return f(F64());
    default:
      return nullptr;
  }
}

Handler choose(Type to, Type from, bool saturate) {
  if (is_integer(to) && is_integer(from))
    return by_integer(to, [&](auto d) -> Handler {
      return by_integer(from, [&](auto s) -> Handler {
        using D = decltype(d);
        using S = decltype(s);
        return saturate ? &integer_saturated<D, S> : &integer_to_integer<D, S>;
      });
    });
  if (is_integer(to) && is_real(from))
    return by_integer(to, [&](auto d) -> Handler {
      return by_real(from, [&](auto s) -> Handler { return &real_to_integer<decltype(d), decltype(s)>; });
    });
  if (is_real(to) && is_integer(from))
    return by_real(to, [&](auto d) -> Handler {
      return by_integer(from, [&](auto s) -> Handler { return &integer_to_real<decltype(d), decltype(s)>; });
    });
  if (is_real(to) && is_real(from))
    return by_real(to, [&](auto d) -> Handler {
      return by_real(from, [&](auto s) -> Handler { return &real_to_real<decltype(d), decltype(s)>; });
    });
  return nullptr;
}

uint8_t whole_of(Decoder& d, uint8_t otherwise) {
  constexpr std::string_view kNames[] = {".rni", ".rzi", ".rmi", ".rpi"};
  for (uint8_t i = 0; i < 4; ++i)
    if (d.has(kNames[i])) return i;
  return otherwise;
}

// Two numbers into one register: d, a (high), b (low).
enum PairKind : uint8_t { kHalves, kBfloats, kE4m3, kE5m2 };
void pair_of(Machine& m, const Step& s) {
  const auto make = [&](auto* d, auto convert) {
    const float* const a = m.at<float>(s.a);
    const float* const b = m.at<float>(s.b);
    for (const Run run : *m.lanes)
      for (uint32_t l = run.begin; l < run.end; ++l) {
        const bool relu = s.mode2 & 4;
        const float high = relu && a[l] < 0 ? 0 : a[l], low = relu && b[l] < 0 ? 0 : b[l];
        d[l] = convert(low, high);
      }
  };
  const bool zero = s.mode2 & 8;
  if (s.mode == kHalves)
    make(m.at<uint32_t>(s.d), [](float low, float high) {
      return half_of(static_cast<double>(low)) | uint32_t{half_of(static_cast<double>(high))} << 16;
    });
  else if (s.mode == kBfloats)
    make(m.at<uint32_t>(s.d),
         [zero](float low, float high) { return bfloat_of(low, zero) | uint32_t{bfloat_of(high, zero)} << 16; });
  else
    make(m.at<uint16_t>(s.d), [n = s.mode == kE4m3 ? 3 : 2](float low, float high) {
      return static_cast<uint16_t>(small_of(low, n) | small_of(high, n) << 8);
    });
}
// Two small numbers to two halves.
void halves_of_small(Machine& m, const Step& s) {
  map1<uint32_t, uint16_t>(m, s, [n = s.mode == kE4m3 ? 3 : 2](uint16_t a) {
    const auto half = [n](uint8_t bits) { return half_of(static_cast<double>(small_to_float(bits, n))); };
    return half(static_cast<uint8_t>(a)) | uint32_t{half(static_cast<uint8_t>(a >> 8))} << 16;
  });
}
// And back.
void small_of_halves(Machine& m, const Step& s) {
  map1<uint16_t, uint32_t>(m, s, [n = s.mode == kE4m3 ? 3 : 2, relu = s.mode2 & 4](uint32_t a) {
    const auto small = [=](uint32_t bits) {
      const float value = half_to_float(static_cast<uint16_t>(bits));
      return small_of(relu && value < 0 ? 0 : value, n);
    };
    return static_cast<uint16_t>(small(a & 0xffff) | small(a >> 16) << 8);
  });
}
void tf32_of(Machine& m, const Step& s) {
  map1<uint32_t, uint32_t>(m, s, [to_zero = s.mode](uint32_t a) {
    if ((a & 0x7f800000) == 0x7f800000) return a;
    return (a + (to_zero ? 0 : 0x1000)) & ~0x1fffu;
  });
}
// cvt.pack: a and b, clamped, into the low bits above which c's stand.
void pack(Machine& m, const Step& s) {
  map3<uint32_t, int32_t, int32_t, uint32_t>(m, s, [mode = s.mode, sign = s.mode2](int32_t a, int32_t b, uint32_t c) {
    const int bits = mode;
    const int64_t low = sign ? -(int64_t{1} << (bits - 1)) : 0;
    const int64_t high = sign ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
    const auto cut = [&](int32_t x) {
      return static_cast<uint32_t>(std::clamp<int64_t>(x, low, high)) &
             static_cast<uint32_t>((uint64_t{1} << bits) - 1);
    };
    const uint32_t both = cut(a) << bits | cut(b);
    return bits == 16 ? both : both | c << (2 * bits);
  });
}

bool decode_pair(Decoder& d, Type to, Type from) {
  const uint8_t flags = static_cast<uint8_t>((d.has(".relu") ? 4 : 0) | (d.has(".rz") ? 8 : 0));
  if ((to == Type::f16x2) && (from == Type::e4m3x2 || from == Type::e5m2x2)) {
    const Slot a = d.source(1, Type::b16);
    d.emit(halves_of_small, d.destination(0, Type::b32), a).mode = from == Type::e4m3x2 ? kE4m3 : kE5m2;
    return true;
  }
  if (from == Type::f16x2 && (to == Type::e4m3x2 || to == Type::e5m2x2)) {
    const Slot a = d.source(1, Type::b32);
    Step& step = d.emit(small_of_halves, d.destination(0, Type::b16), a);
    step.mode = to == Type::e4m3x2 ? kE4m3 : kE5m2;
    step.mode2 = flags;
    return true;
  }
  if (from != Type::f32 || d.operand_count() != 3) return false;
  PairKind kind;
  if (to == Type::f16x2)
    kind = kHalves;
  else if (to == Type::bf16x2)
    kind = kBfloats;
  else if (to == Type::e4m3x2)
    kind = kE4m3;
  else if (to == Type::e5m2x2)
    kind = kE5m2;
  else
    return false;
  const Slot a = d.source(1, Type::f32), b = d.source(2, Type::f32);
  const Slot result = d.destination(0, kind == kHalves || kind == kBfloats ? Type::b32 : Type::b16);
  Step& step = emit_rounded(d, pair_of, {result, a, b});
  step.mode = kind;
  step.mode2 = flags;
  return true;
}

bool decode_pack(Decoder& d) {
  // cvt.pack.sat.to.s32{.b32} d, a, b {, c}
  const Type to = d.types().empty() ? Type::none : d.types()[0];
  const size_t bytes = ptx::bytes_of(to);
  if (!is_integer(to) || bytes > 2) return false;
  const Slot a = d.source(1, Type::s32), b = d.source(2, Type::s32),
             c = d.operand_count() > 3 ? d.source(3, Type::b32) : d.constant(0, 4);
  Step& step = d.emit(pack, d.destination(0, Type::b32), a, b, c);
  step.mode = static_cast<uint8_t>(8 * bytes);
  step.mode2 = ptx::facts(to).kind == 's';
  return true;
}

}  // namespace

bool decode_convert(Decoder& d) {
  if (d.has(".pack")) return decode_pack(d);
  if (d.types().size() != 2) return false;
  const Type to = d.types()[0], from = d.types()[1];
  if (to == Type::tf32) {
    const Slot a = d.source(1, Type::b32);
    d.emit(tf32_of, d.destination(0, Type::b32), a).mode = d.has(".rz");
    return true;
  }
  if (d.operand_count() == 3 || ptx::facts(from).kind == 'h') return decode_pair(d, to, from);
  const Handler run = choose(to, from, d.has(".sat"));
  if (!run) return false;
  const Slot a = d.source(1, from);
  Step& step = emit_rounded(d, run, {d.destination(0, to), a});
  const bool flush = d.has(".ftz") && (from == Type::f32 || to == Type::f32);
  if (is_integer(to)) {
    step.mode = whole_of(d, kZero);
    step.mode2 = flush;
  } else {
    step.mode = whole_of(d, kAsIs);
    step.mode2 = static_cast<uint8_t>((d.has(".sat") ? 1 : 0) | (flush ? 2 : 0) | (d.has(".relu") ? 4 : 0));
  }
  return true;
}

}  // namespace devtrace::simulate::kernels

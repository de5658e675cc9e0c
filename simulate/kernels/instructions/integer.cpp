// Whole numbers: add, sub, mul, mad, div, rem, abs, neg, min, max, sad, the extended precision ones, dp4a and dp2a.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"

namespace devtrace::simulate::kernels {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>,
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>>;

struct Add {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  }
};
struct MulLo {
  template <class T>
  T operator()(T a, T b) {
    using W = std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned<T>>;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct MulHi {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) {
    if (b == 0) return static_cast<T>(~Unsigned<T>(0));
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  T operator()(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) {
    return std::max(a, b);
  }
};
struct Abs {
  template <class T>
  T operator()(T a) {
    return a < 0 ? static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a)) : a;
  }
};
struct Neg {
  template <class T>
  T operator()(T a) {
    return static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a));
  }
};
struct Sad {
  template <class T>
  T operator()(T a, T b, T c) {
    const Unsigned<T> distance = a < b ? Unsigned<T>(b) - Unsigned<T>(a) : Unsigned<T>(a) - Unsigned<T>(b);
    return static_cast<T>(Unsigned<T>(c) + distance);
  }
};
struct MadLo {
  template <class T>
  T operator()(T a, T b, T c) {
    return Add()(MulLo()(a, b), c);
  }
};
struct MadHi {
  template <class T>
  T operator()(T a, T b, T c) {
    return Add()(MulHi()(a, b), c);
  }
};
int32_t clamped(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}
struct AddSat {
  int32_t operator()(int32_t a, int32_t b) { return clamped(int64_t{a} + b); }
};
struct SubSat {
  int32_t operator()(int32_t a, int32_t b) { return clamped(int64_t{a} - b); }
};
struct MadHiSat {
  int32_t operator()(int32_t a, int32_t b, int32_t c) { return clamped(int64_t{MulHi()(a, b)} + c); }
};
// Of 24 bits.
template <bool kHigh>
struct Mul24 {
  template <class T>
  T operator()(T a, T b) {
    const auto cut = [](T x) -> Wide<T> {
      return static_cast<Wide<T>>(static_cast<T>(static_cast<uint32_t>(x) << 8) >> 8);
    };
    const Wide<T> product = cut(a) * cut(b);
    return static_cast<T>(kHigh ? product >> 16 : product);
  }
};
template <bool kHigh>
struct Mad24 {
  template <class T>
  T operator()(T a, T b, T c) {
    return Add()(Mul24<kHigh>()(a, b), c);
  }
};
template <class F>
struct Halves {  // of two 16-bit numbers
  template <class T>
  T operator()(T a, T b) {
    using H = std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>;
    const auto low = static_cast<uint16_t>(F()(static_cast<H>(a), static_cast<H>(b)));
    const auto high = static_cast<uint16_t>(
        F()(static_cast<H>(static_cast<uint32_t>(a) >> 16), static_cast<H>(static_cast<uint32_t>(b) >> 16)));
    return static_cast<T>(low | uint32_t{high} << 16);
  }
};

template <class T>
void mul_wide(Machine& m, const Step& s) {
  map2<Wide<T>, T, T>(m, s,
                      [](T a, T b) { return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)); });
}
template <class T>
void mad_wide(Machine& m, const Step& s) {
  using W = Wide<T>;
  map3<W, T, T, W>(m, s, [](T a, T b, W c) { return Add()(static_cast<W>(static_cast<W>(a) * static_cast<W>(b)), c); });
}

template <class F>
Handler two(Type type) {
  return by_integer(type, [](auto t) -> Handler { return &binary<decltype(t), F>; });
}
template <class F>
Handler three(Type type) {
  return by_integer(type, [](auto t) -> Handler { return &ternary<decltype(t), F>; });
}

// The carry is a register of its own: a byte a lane, in a slot of the step's. As in hardware a - b is a + ~b + 1.
template <class T>
struct Carry {
  // mode: 1 the carry comes in, 2 it goes out.
  static void add(Machine& m, const Step& s) { run<false>(m, s); }
  static void sub(Machine& m, const Step& s) { run<true>(m, s); }
  template <bool kSub>
  static void run(Machine& m, const Step& s) {
    T* const d = m.at<T>(s.d);
    const T* const a = m.at<T>(s.a);
    const T* const b = m.at<T>(s.b);
    auto* const carry = m.at<uint8_t>((*m.more)[s.extra]);
    for (const Run run : *m.lanes)
      for (uint32_t l = run.begin; l < run.end; ++l) {
        const unsigned in = s.mode & 1 ? carry[l] : kSub;
        const unsigned __int128 all = static_cast<unsigned __int128>(a[l]) + static_cast<T>(kSub ? ~b[l] : b[l]) + in;
        d[l] = static_cast<T>(all);
        if (s.mode & 2) carry[l] = (all >> (8 * sizeof(T))) != 0;
      }
  }
};

template <bool kSigned, bool kSignedB>
void dp4a(Machine& m, const Step& s) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(m, s, [](uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) {
      const uint32_t x = a >> (8 * i) & 0xff, y = b >> (8 * i) & 0xff;
      c += static_cast<uint32_t>((kSigned ? int8_t(x) : int(x)) * (kSignedB ? int8_t(y) : int(y)));
    }
    return c;
  });
}
template <bool kSigned, bool kSignedB>
void dp2a(Machine& m, const Step& s) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(m, s, [high = s.mode](uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 2; ++i) {
      const uint32_t x = a >> (16 * i) & 0xffff, y = b >> (8 * i + 16 * high) & 0xff;
      c += static_cast<uint32_t>((kSigned ? int16_t(x) : int(x)) * (kSignedB ? int8_t(y) : int(y)));
    }
    return c;
  });
}

bool dot(Decoder& d, bool four) {
  if (d.types().size() != 2) return false;
  const bool a = d.types()[0] == Type::s32, b = d.types()[1] == Type::s32;
  static constexpr Handler kFour[] = {dp4a<false, false>, dp4a<false, true>, dp4a<true, false>, dp4a<true, true>};
  static constexpr Handler kTwo[] = {dp2a<false, false>, dp2a<false, true>, dp2a<true, false>, dp2a<true, true>};
  const size_t which = 2 * a + b;
  const Slot x = d.source(1, Type::b32), y = d.source(2, Type::b32), z = d.source(3, Type::b32);
  Step& step = d.emit((four ? kFour : kTwo)[which], d.destination(0, Type::b32), x, y, z);
  step.mode = d.has(".hi");
  return true;
}

bool extended(Decoder& d, std::string_view op, Type type) {
  const bool in = op.ends_with('c'), out = d.has(".cc"), sub = op.starts_with("sub");
  const size_t bytes = ptx::bytes_of(type);
  if (bytes != 4 && bytes != 8) return false;
  const bool product = op.starts_with("mad");
  Slot a = d.source(1), b = d.source(product ? 3 : 2);
  if (product) {
    const Handler mul = d.has(".hi") ? two<MulHi>(type) : two<MulLo>(type);
    const Slot p = d.temporary(bytes), x = a, y = d.source(2);
    d.emit(mul, p, x, y);
    a = p;
  }
  Handler run = bytes == 4 ? (sub ? Carry<uint32_t>::sub : Carry<uint32_t>::add)
                           : (sub ? Carry<uint64_t>::sub : Carry<uint64_t>::add);
  Step& step = d.emit(run, d.destination(0), a, b);
  step.mode = static_cast<uint8_t>((in ? 1 : 0) | (out ? 2 : 0));
  step.extra = d.more({d.carry()});
  return true;
}

Handler multiply(Decoder& d, Type type) {
  if (d.has(".hi")) return two<MulHi>(type);
  return two<MulLo>(type);
}

Type wide_type(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      return Type::none;
  }
}

bool wide(Decoder& d, std::string_view op, Type type) {
  const Type result = wide_type(type);
  if (result == Type::none) return false;
  const bool mad = op == "mad";
  const Handler run = by_integer(type, [mad](auto t) -> Handler {
    using T = decltype(t);
    if constexpr (sizeof(T) == 2 || sizeof(T) == 4) return mad ? &mad_wide<T> : &mul_wide<T>;
    return nullptr;
  });
  const Slot a = d.source(1, type), b = d.source(2, type), c = mad ? d.source(3, result) : kNoSlot;
  d.emit(run, d.destination(0, result), a, b, c);
  return true;
}

template <class F>
Handler pairs(Type type) {
  return type == Type::s16x2 ? &binary<int32_t, Halves<F>> : &binary<uint32_t, Halves<F>>;
}

Handler choose(Decoder& d, std::string_view op, Type type) {
  const bool saturates = d.has(".sat");
  if (type == Type::u16x2 || type == Type::s16x2) {
    if (op == "add") return pairs<Add>(type);
    if (op == "min") return pairs<Min>(type);
    if (op == "max") return pairs<Max>(type);
    return nullptr;
  }
  if (op == "add") return saturates ? &binary<int32_t, AddSat> : two<Add>(type);
  if (op == "sub") return saturates ? &binary<int32_t, SubSat> : two<Sub>(type);
  if (op == "mul") return multiply(d, type);
  if (op == "div") return two<Div>(type);
  if (op == "rem") return two<Rem>(type);
  if (op == "min") return two<Min>(type);
  if (op == "max") return two<Max>(type);
  if (op == "sad") return three<Sad>(type);
  if (op == "mad")
    return saturates ? &ternary<int32_t, MadHiSat> : d.has(".hi") ? three<MadHi>(type) : three<MadLo>(type);
  if (op == "abs") return by_integer(type, [](auto t) -> Handler { return &unary<decltype(t), Abs>; });
  if (op == "neg") return by_integer(type, [](auto t) -> Handler { return &unary<decltype(t), Neg>; });
  const bool sign = type == Type::s32;
  if (op == "mul24") {
    if (d.has(".hi")) return sign ? &binary<int32_t, Mul24<true>> : &binary<uint32_t, Mul24<true>>;
    return sign ? &binary<int32_t, Mul24<false>> : &binary<uint32_t, Mul24<false>>;
  }
  if (op == "mad24") {
    if (d.has(".hi")) return sign ? &ternary<int32_t, Mad24<true>> : &ternary<uint32_t, Mad24<true>>;
    return sign ? &ternary<int32_t, Mad24<false>> : &ternary<uint32_t, Mad24<false>>;
  }
  return nullptr;
}

}  // namespace

bool decode_integer(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  const Type type = d.type();
  if (op == "dp4a" || op == "dp2a") return dot(d, op == "dp4a");
  if (op == "addc" || op == "subc" || op == "madc" || d.has(".cc")) return extended(d, op, type);
  if (d.has(".wide")) return wide(d, op, type);
  const Handler run = choose(d, op, type);
  if (!run || d.operand_count() < 2) return false;
  const Slot a = d.source(1), b = d.operand_count() > 2 ? d.source(2) : kNoSlot;
  const Slot c = d.operand_count() > 3 ? d.source(3) : kNoSlot;
  d.emit(run, d.destination(0), a, b, c);
  return true;
}

}  // namespace devtrace::simulate::kernels

// Bits: logic, shifts, fields, counts, permutations.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"

namespace devtrace::simulate::kernels {
namespace {

struct And {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  T operator()(T a) {
    return a == 0;
  }
};
struct Brev {
  template <class T>
  T operator()(T a) {
    T r = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i, a = static_cast<T>(a >> 1)) r = static_cast<T>(r << 1 | (a & 1));
    return r;
  }
};

template <class T>
void shl(Machine& m, const Step& s) {
  static constexpr uint32_t kBits = 8 * sizeof(T);
  map2<T, T, uint32_t>(m, s, [](T a, uint32_t n) { return static_cast<T>(n < kBits ? a << n : 0); });
}
template <class T>
void shr(Machine& m, const Step& s) {
  static constexpr uint32_t kBits = 8 * sizeof(T);
  map2<T, T, uint32_t>(m, s, [](T a, uint32_t n) {
    if (std::is_signed_v<T>) return static_cast<T>(a >> std::min(n, kBits - 1));
    return static_cast<T>(n < kBits ? a >> n : 0);
  });
}
// shf: a is the low word, b the high one.
template <bool kLeft, bool kWrap>
void funnel(Machine& m, const Step& s) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(m, s, [](uint32_t a, uint32_t b, uint32_t n) {
    n = kWrap ? n & 31 : std::min(n, 32u);
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(kLeft ? both << n >> 32 : both >> n);
  });
}
template <class T>
void popc(Machine& m, const Step& s) {
  map1<uint32_t, T>(m, s, [](T a) { return static_cast<uint32_t>(std::popcount(a)); });
}
template <class T>
void clz(Machine& m, const Step& s) {
  map1<uint32_t, T>(m, s, [](T a) { return static_cast<uint32_t>(std::countl_zero(a)); });
}
template <class T, bool kShift>
void bfind(Machine& m, const Step& s) {
  map1<uint32_t, T>(m, s, [](T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (!bits) return ~0u;
    const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
    return kShift ? zeros : static_cast<uint32_t>(8 * sizeof(T)) - 1 - zeros;
  });
}
template <class T>
void bfe(Machine& m, const Step& s) {
  static constexpr uint32_t kTop = 8 * sizeof(T) - 1;
  map3<T, T, uint32_t, uint32_t>(m, s, [](T a, uint32_t b, uint32_t c) {
    using U = std::make_unsigned_t<T>;
    const uint32_t at = b & 0xff, length = c & 0xff;
    if (length == 0) return T{0};
    const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> std::min(at + length - 1, kTop) & 1);
    U bits = at <= kTop ? static_cast<U>(static_cast<U>(a) >> at) : U{0};
    if (at <= kTop && std::is_signed_v<T>) bits = static_cast<U>(static_cast<U>(a) >> at);
    const U mask = length > kTop ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
    bits &= mask;
    // Above the field, and above the word, stands the sign.
    if (sign) {
      const uint32_t known = at > kTop ? 0 : std::min(length, kTop + 1 - at);
      bits |= known > kTop ? U{0} : static_cast<U>(~U{0} << known);
    }
    return static_cast<T>(bits);
  });
}
// f, a, b, c, d: a's bits into b at c, d of them.
template <class T>
void bfi(Machine& m, const Step& s) {
  const uint32_t* const length = m.at<uint32_t>((*m.more)[s.extra]);
  T* const d = m.at<T>(s.d);
  const T* const a = m.at<T>(s.a);
  const T* const b = m.at<T>(s.b);
  const uint32_t* const c = m.at<uint32_t>(s.c);
  static constexpr uint32_t kBits = 8 * sizeof(T);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      const uint32_t at = c[l] & 0xff, n = length[l] & 0xff;
      const T mask = at >= kBits || !n ? T{0} : static_cast<T>((n >= kBits ? ~T{0} : (T{1} << n) - 1) << at);
      d[l] = static_cast<T>((b[l] & ~mask) | ((at < kBits ? a[l] << at : 0) & mask));
    }
}
uint32_t bytes_by(uint64_t both, uint32_t selector) {
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t which = selector >> (4 * i) & 0xf;
    auto byte = static_cast<uint32_t>(both >> (8 * (which & 7)) & 0xff);
    if (which & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
void prmt(Machine& m, const Step& s) {
  // The modes' selectors, by the two low bits of c: f4e, b4e, rc8, ecl, ecr, rc16.
  static constexpr uint32_t kModes[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                            {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                            {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(m, s, [mode = s.mode](uint32_t a, uint32_t b, uint32_t c) {
    return bytes_by(uint64_t{b} << 32 | a, mode ? kModes[mode - 1][c & 3] : c);
  });
}
void lop3(Machine& m, const Step& s) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(m, s, [table = s.mode](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
    if (table & 0x01) r |= ~a & ~b & ~c;
    if (table & 0x02) r |= ~a & ~b & c;
    if (table & 0x04) r |= ~a & b & ~c;
    if (table & 0x08) r |= ~a & b & c;
    if (table & 0x10) r |= a & ~b & ~c;
    if (table & 0x20) r |= a & ~b & c;
    if (table & 0x40) r |= a & b & ~c;
    if (table & 0x80) r |= a & b & c;
    return r;
  });
}
template <bool kWrap>
void bmsk(Machine& m, const Step& s) {
  map2<uint32_t, uint32_t, uint32_t>(m, s, [](uint32_t a, uint32_t b) {
    if (kWrap) a &= 31, b &= 31;
    if (a > 31) return 0u;
    const uint32_t ones = b > 31 ? ~0u : (1u << b) - 1;
    return ones << a;
  });
}
template <bool kSigned, bool kWrap>
void szext(Machine& m, const Step& s) {
  map2<uint32_t, uint32_t, uint32_t>(m, s, [](uint32_t a, uint32_t b) {
    if (kWrap) b &= 31;
    if (b > 31) return a;
    if (b == 0) return 0u;
    const uint32_t low = a & ((1u << b) - 1);
    return kSigned && (a >> (b - 1) & 1) ? low | ~0u << b : low;
  });
}
// The n-th set bit from a base on, upwards or down.
void fns(Machine& m, const Step& s) {
  map3<uint32_t, uint32_t, uint32_t, int32_t>(m, s, [](uint32_t mask, uint32_t base, int32_t offset) {
    if (base > 31) return ~0u;
    if (offset == 0) return mask >> base & 1 ? base : ~0u;
    int left = offset > 0 ? offset : -offset;
    for (int at = static_cast<int>(base); at >= 0 && at<32; at += offset> 0 ? 1 : -1)
      if ((mask >> at & 1) && --left == 0) return static_cast<uint32_t>(at);
    return ~0u;
  });
}

template <class F>
Handler logic(Type type) {
  if (type == Type::pred) return &binary<uint8_t, F>;
  return by_bits(ptx::bytes_of(type), [](auto t) -> Handler { return &binary<decltype(t), F>; });
}
struct NotPredicate {
  uint8_t operator()(uint8_t a) { return a ^ 1; }
};

template <class F>
Handler one(Type type, F f) {
  return by_bits(ptx::bytes_of(type), f);
}
Handler counting(std::string_view op, Type type, bool shift) {
  const bool wide = ptx::bytes_of(type) == 8;
  if (op == "popc") return wide ? &popc<uint64_t> : &popc<uint32_t>;
  if (op == "clz") return wide ? &clz<uint64_t> : &clz<uint32_t>;
  return by_integer(
      type, [shift](auto t) -> Handler { return shift ? &bfind<decltype(t), true> : &bfind<decltype(t), false>; });
}

bool decode_lop3(Decoder& d) {
  // lop3.b32 d, a, b, c, table; with a predicate: lop3.or.b32 d|p, a, b, c, table, q
  if (d.operand(0).kind == Operand::Kind::pair) return false;
  const Slot a = d.source(1), b = d.source(2), c = d.source(3);
  if (d.operand(4).kind != Operand::Kind::integer) return false;
  d.emit(lop3, d.destination(0), a, b, c).mode = static_cast<uint8_t>(d.operand(4).value);
  return true;
}

bool decode_prmt(Decoder& d) {
  constexpr std::string_view kModes[] = {".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
  uint8_t mode = 0;
  for (uint8_t i = 0; i < 6; ++i)
    if (d.has(kModes[i])) mode = static_cast<uint8_t>(i + 1);
  const Slot a = d.source(1, Type::b32), b = d.source(2, Type::b32), c = d.source(3, Type::b32);
  d.emit(prmt, d.destination(0, Type::b32), a, b, c).mode = mode;
  return true;
}

}  // namespace

bool decode_bits(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  const Type type = d.type();
  const size_t bytes = ptx::bytes_of(type);
  if (op == "lop3") return decode_lop3(d);
  if (op == "prmt") return decode_prmt(d);
  if (op == "and" || op == "or" || op == "xor") {
    const Handler run = op == "and" ? logic<And>(type) : op == "or" ? logic<Or>(type) : logic<Xor>(type);
    if (!run) return false;
    const Slot a = d.source(1), b = d.source(2);
    d.emit(run, d.destination(0), a, b);
    return true;
  }
  if (op == "not" || op == "cnot" || op == "brev") {
    Handler run = type == Type::pred && op == "not" ? &unary<uint8_t, NotPredicate> : nullptr;
    if (!run && op == "not") run = one(type, [](auto t) -> Handler { return &unary<decltype(t), Not>; });
    if (op == "cnot") run = one(type, [](auto t) -> Handler { return &unary<decltype(t), Cnot>; });
    if (op == "brev") run = one(type, [](auto t) -> Handler { return &unary<decltype(t), Brev>; });
    if (!run) return false;
    const Slot a = d.source(1);
    d.emit(run, d.destination(0), a);
    return true;
  }
  if (op == "shl" || op == "shr") {
    const Handler run = op == "shl" ? by_bits(bytes, [](auto t) -> Handler { return &shl<decltype(t)>; })
                                    : by_integer(type, [](auto t) -> Handler { return &shr<decltype(t)>; });
    if (!run) return false;
    const Slot a = d.source(1), b = d.source(2, Type::u32);
    d.emit(run, d.destination(0), a, b);
    return true;
  }
  if (op == "popc" || op == "clz" || op == "bfind") {
    const Handler run = counting(op, type, d.has(".shiftamt"));
    if (!run || bytes < 4) return false;
    const Slot a = d.source(1);
    d.emit(run, d.destination(0, Type::u32), a);
    return true;
  }
  if (op == "bfi") {
    if (bytes != 4 && bytes != 8) return false;
    const Slot a = d.source(1), b = d.source(2), c = d.source(3, Type::u32), n = d.source(4, Type::u32);
    const uint32_t extra = d.more({n});
    d.emit(bytes == 4 ? &bfi<uint32_t> : &bfi<uint64_t>, d.destination(0), a, b, c).extra = extra;
    return true;
  }
  Handler run = nullptr;
  if (op == "bfe" && bytes >= 4) run = by_integer(type, [](auto t) -> Handler { return &bfe<decltype(t)>; });
  if (op == "shf") {
    const bool left = d.has(".l"), wrap = d.has(".wrap");
    run = left   ? (wrap ? &funnel<true, true> : &funnel<true, false>)
          : wrap ? &funnel<false, true>
                 : &funnel<false, false>;
  }
  if (op == "bmsk") run = d.has(".wrap") ? &bmsk<true> : &bmsk<false>;
  if (op == "szext") {
    const bool sign = type == Type::s32, wrap = d.has(".wrap");
    run = sign ? (wrap ? &szext<true, true> : &szext<true, false>) : wrap ? &szext<false, true> : &szext<false, false>;
  }
  if (op == "fns") run = &fns;
  if (!run) return false;
  const Slot a = d.source(1), b = d.source(2, op == "shf" ? type : Type::u32);
  const Slot c = d.operand_count() > 3 ? d.source(3, Type::u32) : kNoSlot;
  d.emit(run, d.destination(0), a, b, c);
  return true;
}

}  // namespace devtrace::simulate::kernels

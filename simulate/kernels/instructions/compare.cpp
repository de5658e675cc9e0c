// Comparisons and choices: set, setp, selp, slct, and mov.
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {
namespace {

// In this order the modifiers; from `equ` on a NaN makes it true.
enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
constexpr std::string_view kCompares[] = {".eq",  ".ne",  ".lt",  ".le",  ".gt",  ".ge",  ".equ",
                                          ".neu", ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan"};

template <Compare kHow, class T>
bool holds(T a, T b) {
  constexpr bool kReal = std::is_floating_point_v<T>;
  if constexpr (kReal) {
    const bool unordered = std::isunordered(a, b);
    if constexpr (kHow == Compare::num) return !unordered;
    if constexpr (kHow == Compare::nan) return unordered;
    if constexpr (kHow >= Compare::equ) {
      constexpr Compare kOrdered = static_cast<Compare>(static_cast<int>(kHow) - static_cast<int>(Compare::equ));
      return unordered || holds<kOrdered>(a, b);
    } else if constexpr (kHow == Compare::ne) {
      return !unordered && a != b;
    }
  }
  if constexpr (kHow == Compare::eq) return a == b;
  if constexpr (kHow == Compare::ne) return a != b;
  if constexpr (kHow == Compare::lt) return a < b;
  if constexpr (kHow == Compare::le) return a <= b;
  if constexpr (kHow == Compare::gt) return a > b;
  if constexpr (kHow == Compare::ge) return a >= b;
  return false;
}

template <class T, Compare kHow>
void compare(Machine& m, const Step& s) {
  map2<uint8_t, T, T>(m, s, [](T a, T b) { return static_cast<uint8_t>(holds<kHow>(a, b)); });
}
template <class H, Compare kHow>
void compare_half(Machine& m, const Step& s) {
  map2<uint8_t, uint16_t, uint16_t>(
      m, s, [](uint16_t a, uint16_t b) { return static_cast<uint8_t>(holds<kHow>(H::value(a), H::value(b))); });
}
// Of two halves: bit 0 the low ones', bit 1 the high ones'.
template <class H, Compare kHow>
void compare_two(Machine& m, const Step& s) {
  map2<uint8_t, uint32_t, uint32_t>(m, s, [](uint32_t a, uint32_t b) {
    const bool low = holds<kHow>(H::value(static_cast<uint16_t>(a)), H::value(static_cast<uint16_t>(b)));
    const bool high = holds<kHow>(H::value(static_cast<uint16_t>(a >> 16)), H::value(static_cast<uint16_t>(b >> 16)));
    return static_cast<uint8_t>(low | high << 1);
  });
}

template <Compare kHow>
Handler for_type(Type type) {
  switch (type) {
    case Type::f32:
      return &compare<float, kHow>;
    case Type::f64:
      return &compare<double, kHow>;
    case Type::f16:
      return &compare_half<Half, kHow>;
    case Type::bf16:
      return &compare_half<Bfloat, kHow>;
    case Type::f16x2:
      return &compare_two<Half, kHow>;
    case Type::bf16x2:
      return &compare_two<Bfloat, kHow>;
    default:
      if constexpr (kHow < Compare::equ)
        return by_integer(type, [](auto t) -> Handler { return &compare<decltype(t), kHow>; });
      return nullptr;
  }
}

Handler comparison(Decoder& d, Type type) {
  // lo, ls, hi, hs: the unsigned ones by another name.
  if (d.has(".lo")) return for_type<Compare::lt>(type);
  if (d.has(".ls")) return for_type<Compare::le>(type);
  if (d.has(".hi")) return for_type<Compare::gt>(type);
  if (d.has(".hs")) return for_type<Compare::ge>(type);
  int how = -1;
  for (int i = 0; i < 14; ++i)
    if (d.has(kCompares[i])) how = i;
  switch (how) {
    case 0:
      return for_type<Compare::eq>(type);
    case 1:
      return for_type<Compare::ne>(type);
    case 2:
      return for_type<Compare::lt>(type);
    case 3:
      return for_type<Compare::le>(type);
    case 4:
      return for_type<Compare::gt>(type);
    case 5:
      return for_type<Compare::ge>(type);
    case 6:
      return for_type<Compare::equ>(type);
    case 7:
      return for_type<Compare::neu>(type);
    case 8:
      return for_type<Compare::ltu>(type);
    case 9:
      return for_type<Compare::leu>(type);
    case 10:
      return for_type<Compare::gtu>(type);
    case 11:
      return for_type<Compare::geu>(type);
    case 12:
      return for_type<Compare::num>(type);
    case 13:
      return for_type<Compare::nan>(type);
    default:
      return nullptr;
  }
}

struct And {
  uint8_t operator()(uint8_t a, uint8_t b) { return a & b; }
};
struct Or {
  uint8_t operator()(uint8_t a, uint8_t b) { return a | b; }
};
struct Xor {
  uint8_t operator()(uint8_t a, uint8_t b) { return a ^ b; }
};
struct Not {
  uint8_t operator()(uint8_t a) { return a ^ 1; }
};

Handler combination(Decoder& d) {
  if (d.has(".and")) return &binary<uint8_t, And>;
  if (d.has(".or")) return &binary<uint8_t, Or>;
  if (d.has(".xor")) return &binary<uint8_t, Xor>;
  return nullptr;
}

void bit_of(Machine& m, const Step& s) {
  map1<uint8_t, uint8_t>(m, s, [n = s.mode](uint8_t a) -> uint8_t { return a >> n & 1; });
}

// set: what a predicate is as a number: mode 0 all ones, 1 1.0f, 2 two of 16 bits all ones, 3 two of `immediate`.
void number_of(Machine& m, const Step& s) {
  map1<uint32_t, uint8_t>(m, s, [mode = s.mode, one = static_cast<uint32_t>(s.immediate)](uint8_t a) -> uint32_t {
    if (mode == 0) return a ? one : 0;
    return (a & 1 ? one : 0) | (a & 2 ? one << 16 : 0);
  });
}
void short_number_of(Machine& m, const Step& s) {
  map1<uint16_t, uint8_t>(m, s,
                          [one = static_cast<uint16_t>(s.immediate)](uint8_t a) -> uint16_t { return a ? one : 0; });
}

bool decode_set(Decoder& d) {
  if (d.types().size() != 2) return false;
  const Type to = d.types()[0], from = d.types()[1];
  const Handler run = comparison(d, from);
  if (!run) return false;
  const bool two = ptx::facts(from).kind == 'h';
  const Slot a = d.source(1, from), b = d.source(2, from), p = d.temporary(1);
  d.emit(run, p, a, b);
  if (const Handler also = combination(d)) d.emit(also, p, p, d.predicate(d.operand(3)));
  int64_t one = 0;
  switch (to) {
    case Type::u32:
    case Type::s32:
      one = two ? 0xffff : 0xffffffff;
      break;
    case Type::f32:
      one = 0x3f800000;
      break;
    case Type::f16:
    case Type::f16x2:
      one = 0x3c00;
      break;
    case Type::bf16:
    case Type::bf16x2:
      one = 0x3f80;
      break;
    case Type::u16:
    case Type::s16:
      one = 0xffff;
      break;
    default:
      return false;
  }
  const bool small = ptx::bytes_of(to) == 2;
  Step& step = d.emit(small ? short_number_of : number_of, d.destination(0, to), p);
  step.immediate = one;
  step.mode = two;
  return true;
}

bool decode_setp(Decoder& d) {
  const Type type = d.type();
  const Handler run = comparison(d, type);
  if (!run) return false;
  const bool two = ptx::facts(type).kind == 'h';
  const Slot a = d.source(1), b = d.source(2);
  const Handler also = combination(d);
  const Slot other = also ? d.predicate(d.operand(3)) : kNoSlot;
  const Operand& target = d.operand(0);
  const bool pair = target.kind == Operand::Kind::pair;
  const Operand& p = pair ? target.parts[0] : target;
  if (!pair && !also && !two) {
    d.emit(run, d.destination(p, Type::pred), a, b);
    return true;
  }
  // p = c and r; q = !c and r. Of two halves p is the low ones', q the high ones'.
  Slot c = d.temporary(1);
  d.emit(run, c, a, b);
  Slot q = d.temporary(1);
  if (two) {
    const Slot low = d.temporary(1);
    d.emit(bit_of, q, c).mode = 1;
    d.emit(bit_of, low, c).mode = 0;
    c = low;
  } else if (pair) {
    d.emit(&unary<uint8_t, Not>, q, c);
  }
  if (also) {
    d.emit(also, c, c, other);
    if (pair) d.emit(also, q, q, other);
  }
  constexpr auto kMove = &unary<uint8_t, decltype([](uint8_t x) { return x; })>;
  d.emit(kMove, d.destination(p, Type::pred), c);
  if (pair) d.emit(kMove, d.destination(target.parts[1], Type::pred), q);
  return true;
}

template <class T>
void selp(Machine& m, const Step& s) {
  map3<T, T, T, uint8_t>(m, s, [](T a, T b, uint8_t p) { return p ? a : b; });
}
template <class T, class C>
void slct(Machine& m, const Step& s) {
  map3<T, T, T, C>(m, s, [](T a, T b, C c) { return c >= 0 ? a : b; });
}
template <class T>
void move(Machine& m, const Step& s) {
  map1<T, T>(m, s, [](T a) { return a; });
}
struct Word128 {
  uint64_t low, high;
};
Handler mover(size_t bytes) {
  if (bytes == 16) return &move<Word128>;
  return by_bits(bytes, [](auto t) -> Handler { return &move<decltype(t)>; });
}

// One part of a word that has several: extra is which, and mode how many bytes a part has.
template <class W, class P>
void join(Machine& m, const Step& s) {
  auto* const d = m.at<W>(s.d);
  const P* const a = m.at<P>(s.a);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) reinterpret_cast<P*>(d + l)[s.extra] = a[l];
}
template <class W, class P>
void part(Machine& m, const Step& s) {
  P* const d = m.at<P>(s.d);
  const W* const a = m.at<W>(s.a);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) d[l] = reinterpret_cast<const P*>(a + l)[s.extra];
}
template <class W>
Handler joiner(size_t bytes, bool apart) {
  return by_bits(bytes, [apart](auto p) -> Handler {
    if constexpr (sizeof(p) < sizeof(W)) return apart ? &part<W, decltype(p)> : &join<W, decltype(p)>;
    return nullptr;
  });
}
Handler piece(size_t whole, size_t bytes, bool apart) {
  switch (whole) {
    case 2:
      return joiner<uint16_t>(bytes, apart);
    case 4:
      return joiner<uint32_t>(bytes, apart);
    case 8:
      return joiner<uint64_t>(bytes, apart);
    case 16:
      return joiner<Word128>(bytes, apart);
    default:
      return nullptr;
  }
}
Type bits_type(size_t bytes) {
  return bytes == 1 ? Type::b8 : bytes == 2 ? Type::b16 : bytes == 4 ? Type::b32 : Type::b64;
}

// Element by element, by way of others: they may change places.
bool move_vector(Decoder& d, Type type) {
  const std::vector<Operand> to = d.parts(d.operand(0)), from = d.parts(d.operand(1));
  const Handler run = mover(ptx::bytes_of(type));
  if (!run || to.size() != from.size()) return false;
  std::vector<Slot> slots;
  for (const Operand& one : from) {
    slots.push_back(d.temporary(ptx::bytes_of(type)));
    const Slot a = d.source(one, type);
    d.emit(run, slots.back(), a);
  }
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i].kind != Operand::Kind::sink) d.emit(run, d.destination(to[i], type), slots[i]);
  return true;
}

bool decode_mov(Decoder& d) {
  const Type type = d.type();
  if (d.has(".v2") || d.has(".v4") || d.has(".v8")) return move_vector(d, type);
  // A vector's register is its parts.
  Operand vectors[2] = {d.operand(0), d.operand(1)};
  for (Operand& o : vectors) {
    std::vector<Operand> parts = d.parts(o);
    if (o.kind != Operand::Kind::reg || parts.size() < 2) continue;
    o.kind = Operand::Kind::vector;
    o.parts = std::move(parts);
  }
  const Operand &to = vectors[0], &from = vectors[1];
  const size_t bytes = ptx::bytes_of(type);
  // {a, b} to a word and back.
  if (from.kind == Operand::Kind::vector || to.kind == Operand::Kind::vector) {
    const bool apart = to.kind == Operand::Kind::vector;
    const Operand& parts = apart ? to : from;
    if (apart && from.kind == Operand::Kind::vector) return false;
    if (parts.parts.empty() || bytes % parts.parts.size()) return false;
    const size_t each = bytes / parts.parts.size();
    const Handler run = piece(bytes, each, apart);
    if (!run) return false;
    Slot whole = apart ? d.source(from, type) : d.destination(to, type);
    // The word may be one of its own parts.
    for (uint32_t i = 0; i < parts.parts.size(); ++i) {
      if (parts.parts[i].kind == Operand::Kind::sink) continue;
      if (apart)
        d.emit(run, d.destination(parts.parts[i], bits_type(each)), whole).extra = i;
      else
        d.emit(run, whole, d.source(parts.parts[i], bits_type(each))).extra = i;
    }
    return true;
  }
  const Handler run = mover(bytes);
  if (!run) return false;
  // The clocks are read where they stand.
  const Slot a = d.source(from, type);
  d.emit(run, d.destination(to, type), a);
  return true;
}

}  // namespace

bool decode_compare(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "set") return decode_set(d);
  if (op == "setp") return decode_setp(d);
  if (op == "mov") return decode_mov(d);
  const size_t bytes = ptx::bytes_of(op == "slct" && !d.types().empty() ? d.types()[0] : d.type());
  Handler run = nullptr;
  Slot a, b, c;
  if (op == "selp") {
    run = by_bits(bytes, [](auto t) -> Handler { return &selp<decltype(t)>; });
    a = d.source(1), b = d.source(2), c = d.predicate(d.operand(3));
  } else {
    if (d.types().size() != 2) return false;
    const Type what = d.types()[0], by = d.types()[1];
    run = by_bits(bytes, [by](auto t) -> Handler {
      return by == Type::f32 ? &slct<decltype(t), float> : &slct<decltype(t), int32_t>;
    });
    a = d.source(1, what), b = d.source(2, what), c = d.source(3, by);
  }
  if (!run) return false;
  d.emit(run, d.destination(0, op == "selp" ? d.type() : d.types()[0]), a, b, c);
  return true;
}

}  // namespace devtrace::simulate::kernels

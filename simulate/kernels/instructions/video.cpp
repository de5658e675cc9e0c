// Video instructions: whole numbers of 32 bits, or two or four in a register, of which parts are chosen.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {
namespace {

enum class Does : uint8_t { add, sub, distance, least, most, average, left, right, compare, multiply };
enum class Besides : uint8_t { none, add, least, most };
enum class Compared : uint8_t { eq, ne, lt, le, gt, ge };

// Parts of a register: how wide, and where each is taken from.
struct Parts {
  uint8_t bits = 32;
  bool has_sign = false;
  uint8_t from[4] = {};  // of two registers, a's parts first
};

// What an instruction is besides its operands; as words in Code::more.
struct Video {
  Does does = Does::add;
  Besides besides = Besides::none;
  Compared compared = Compared::eq;
  uint8_t count = 1;  // of results
  bool has_sign = false, saturates = false, wraps = false;
  bool negated = false, minus_c = false, plus_one = false;  // of a product
  uint8_t shift = 0;                                        // ... to the right
  Parts a, b;
  uint8_t bits = 32, first = 0;  // of results: how wide each is, and which part of d the first is
  uint8_t mask = 15;             // results that are written
  bool merges = false;           // the rest of d is c's
};

uint64_t mask_of(uint32_t bits) {
  return (uint64_t{1} << bits) - 1;
}

int64_t part(uint32_t a, uint32_t b, const Parts& parts, uint32_t i) {
  const uint64_t both = uint64_t{b} << 32 | a;
  const auto value = static_cast<int64_t>(both >> (parts.bits * parts.from[i]) & mask_of(parts.bits));
  const int64_t sign = int64_t{1} << (parts.bits - 1);
  return parts.has_sign ? (value ^ sign) - sign : value;
}

bool holds(Compared compared, int64_t a, int64_t b) {
  switch (compared) {
    case Compared::eq:
      return a == b;
    case Compared::ne:
      return a != b;
    case Compared::lt:
      return a < b;
    case Compared::le:
      return a <= b;
    case Compared::gt:
      return a > b;
    default:
      return a >= b;
  }
}

int64_t of_two(const Video& v, int64_t a, int64_t b, int64_t c) {
  switch (v.does) {
    case Does::add:
      return a + b;
    case Does::sub:
      return a - b;
    case Does::distance:
      return a < b ? b - a : a - b;
    case Does::least:
      return std::min(a, b);
    case Does::most:
      return std::max(a, b);
    case Does::average:
      return (a + b >= 0 ? a + b + 1 : a + b) >> 1;
    case Does::left:
    case Does::right: {
      const int64_t by = v.wraps ? b & 31 : std::min<int64_t>(b, 32);
      return v.does == Does::left ? static_cast<int64_t>(static_cast<uint64_t>(a) << by) : a >> by;
    }
    case Does::compare:
      return holds(v.compared, a, b);
    default:
      return ((v.negated ? -(a * b) : a * b) + (v.minus_c ? -c : c) + v.plus_one) >> v.shift;
  }
}

int64_t saturated(int64_t value, bool has_sign, uint32_t bits) {
  const auto most = static_cast<int64_t>(mask_of(has_sign ? bits - 1 : bits));
  return std::clamp(value, has_sign ? -most - 1 : int64_t{0}, most);
}

uint32_t computed(const Video& v, uint32_t a, uint32_t b, uint32_t c) {
  const int64_t wide_c = v.has_sign ? int64_t{static_cast<int32_t>(c)} : int64_t{c};
  uint32_t d = v.merges ? c : 0;
  int64_t all = wide_c;
  for (uint32_t i = 0; i < v.count; ++i) {
    if (!(v.mask >> i & 1)) continue;
    int64_t value = of_two(v, part(a, b, v.a, i), part(a, b, v.b, i), wide_c);
    if (v.saturates) value = saturated(value, v.has_sign, v.bits);
    if (v.besides == Besides::add) {
      all += value;
      continue;
    }
    if (v.besides != Besides::none) {
      const int64_t one = v.has_sign ? int64_t{static_cast<int32_t>(value)} : int64_t{static_cast<uint32_t>(value)};
      value = v.besides == Besides::least ? std::min(one, wide_c) : std::max(one, wide_c);
    }
    const uint32_t at = v.bits * (v.first + i);
    const auto bits = static_cast<uint32_t>(mask_of(v.bits)) << at;
    d = (d & ~bits) | (static_cast<uint32_t>(value) << at & bits);
  }
  return v.besides == Besides::add ? static_cast<uint32_t>(all) : d;
}

void video(Machine& m, const Step& s) {
  Video v;
  std::memcpy(static_cast<void*>(&v), m.more->data() + s.extra, sizeof v);
  uint32_t* const d = m.at<uint32_t>(s.d);
  const uint32_t *const a = m.at<uint32_t>(s.a), *const b = m.at<uint32_t>(s.b), *const c = m.at<uint32_t>(s.c);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) d[l] = computed(v, a[l], b[l], c[l]);
}

// "b2": one byte; "h10": halves, the last one first; nothing: all of the register.
bool read_parts(std::string_view selector, uint32_t count, bool second, Parts* parts) {
  const char kind = count == 4 ? 'b' : 'h';
  if (count > 1) {
    count = count == 2 ? 2 : 4;
    parts->bits = static_cast<uint8_t>(32 / count);
    for (uint32_t i = 0; i < count; ++i) parts->from[i] = static_cast<uint8_t>(i + (second ? count : 0));
    if (selector.empty()) return true;
    if (selector[0] != kind || selector.size() != count + 1) return false;
    for (uint32_t i = 0; i < count; ++i) {
      parts->from[i] = static_cast<uint8_t>(selector[count - i] - '0');
      if (parts->from[i] >= 2 * count) return false;
    }
    return true;
  }
  uint32_t of_four = 0;
  if (!selector.empty()) {
    if (selector.size() != 2) return false;
    parts->bits = selector[0] == 'b' ? 8 : 16;
    of_four = static_cast<uint32_t>(selector[1] - '0');
    if (of_four >= 32u / parts->bits) return false;
  }
  parts->from[0] = static_cast<uint8_t>(of_four + (second ? 32 / parts->bits : 0));
  return true;
}

// Which results are written.
bool read_mask(std::string_view selector, uint32_t count, uint8_t* mask) {
  if (selector.empty()) return true;
  if (selector[0] != (count == 4 ? 'b' : 'h')) return false;
  *mask = 0;
  for (const char digit : selector.substr(1)) {
    if (digit >= static_cast<char>('0' + count)) return false;
    *mask = static_cast<uint8_t>(*mask | 1 << (digit - '0'));
  }
  return true;
}

bool has_sign(Type type) {
  return type == Type::s32;
}

bool read_kind(Decoder& d, std::string_view op, Video* v) {
  struct Row {
    std::string_view name;
    Does does;
  };
  constexpr Row kRows[] = {{"vadd", Does::add},     {"vsub", Does::sub},   {"vabsdiff", Does::distance},
                           {"vmin", Does::least},   {"vmax", Does::most},  {"vavrg", Does::average},
                           {"vshl", Does::left},    {"vshr", Does::right}, {"vset", Does::compare},
                           {"vmad", Does::multiply}};
  constexpr std::string_view kCompared[] = {".eq", ".ne", ".lt", ".le", ".gt", ".ge"};
  if (op.ends_with('2') || op.ends_with('4')) {
    v->count = static_cast<uint8_t>(op.back() - '0');
    op.remove_suffix(1);
  }
  bool known = false;
  for (const Row& row : kRows)
    if (row.name == op) v->does = row.does, known = true;
  if (v->does == Does::compare) {
    known = false;
    for (size_t i = 0; i < std::size(kCompared); ++i)
      if (d.has(kCompared[i])) v->compared = static_cast<Compared>(i), known = true;
  }
  v->saturates = d.has(".sat");
  v->wraps = d.has(".wrap");
  v->besides = d.has(".add")   ? Besides::add
               : d.has(".min") ? Besides::least
               : d.has(".max") ? Besides::most
                               : Besides::none;
  v->shift = d.has(".shr7") ? 7 : d.has(".shr15") ? 15 : 0;
  v->plus_one = d.has(".po");
  return known;
}

// The operand without its part and its sign, which are read apart.
Slot plain(Decoder& d, Operand o) {
  o.selector = {};
  o.negated = false;
  return d.source(o, Type::b32);
}

}  // namespace

bool decode_video(Decoder& d) {
  Video v;
  if (!read_kind(d, d.instruction().opcode, &v)) return false;
  // The type of the result is first, but for a comparison's.
  const std::vector<Type>& types = d.types();
  const size_t of_a = v.does == Does::compare ? 0 : 1;
  if (types.size() != of_a + 2) return false;
  v.has_sign = of_a && has_sign(types[0]);
  v.a.has_sign = has_sign(types[of_a]);
  v.b.has_sign = has_sign(types[of_a + 1]);
  Operand to = d.operand(0);
  const Operand &a = d.operand(1), &b = d.operand(2), &c = d.operand(3);
  if (!read_parts(a.selector, v.count, false, &v.a) || !read_parts(b.selector, v.count, true, &v.b)) return false;
  const bool has_c = d.operand_count() > 3;
  if (v.count > 1) {
    if (!has_c || !read_mask(to.selector, v.count, &v.mask)) return false;
    v.bits = static_cast<uint8_t>(32 / v.count);
    v.merges = v.besides == Besides::none;
  } else if (!to.selector.empty()) {
    Parts parts;
    if (!has_c || !read_parts(to.selector, 1, false, &parts)) return false;
    v.bits = parts.bits;
    v.first = parts.from[0];
    v.merges = true;
  }
  if (v.does == Does::multiply) {
    if (!has_c) return false;
    v.negated = a.negated != b.negated;
    v.minus_c = c.negated;
    v.has_sign = v.a.has_sign || v.b.has_sign || v.negated || v.minus_c;
  }
  to.selector = {};
  std::vector<Slot> words((sizeof v + sizeof(Slot) - 1) / sizeof(Slot));
  std::memcpy(words.data(), &v, sizeof v);
  const Slot slots[] = {plain(d, a), plain(d, b), has_c ? plain(d, c) : d.constant(0, 4)};
  const uint32_t extra = d.more(words);
  d.emit(video, d.destination(to, Type::b32), slots[0], slots[1], slots[2]).extra = extra;
  return true;
}

}  // namespace devtrace::simulate::kernels

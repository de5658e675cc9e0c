// Matrices of a warp: ldmatrix, stmatrix, mma.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/reach.h"
#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {
namespace {

// Calls f(first lane) for each warp that is here as a whole; what is not is an error of the program's.
template <class F>
void whole_warps(Machine& m, F f) {
  for (uint32_t first = 0; first < m.lane_count; first += 32) {
    const uint32_t here = m.lanes->in_warp(first / 32);
    if (!here) continue;
    if (here != UINT32_MAX) return m.fail(FaultKind::trap, first, "a matrix of a warp whose threads are not all there");
    f(first);
  }
}

// --- Eight rows of eight numbers of 16 bits each; rows' addresses come from lanes. ---

// mode: matrices; mode2: 1 transposed, 2 to memory, 4 an address in shared memory, of 32 bits with 8.
void matrices(Machine& m, const Step& s) {
  const bool transposed = s.mode2 & 1, store = s.mode2 & 2;
  whole_warps(m, [&](uint32_t first) {
    uint16_t* rows[32] = {};
    for (uint32_t i = 0; i < 8u * s.mode; ++i) {
      const uint32_t l = first + i;
      uint8_t* at = nullptr;
      if (s.mode2 & 8)
        at = access<uint32_t, true>(m, s, l, m.at<uint32_t>(s.a)[l], 16, 16, store);
      else if (s.mode2 & 4)
        at = access<uint64_t, true>(m, s, l, m.at<uint64_t>(s.a)[l], 16, 16, store);
      else
        at = access<uint64_t, false>(m, s, l, m.at<uint64_t>(s.a)[l], 16, 16, store);
      if (!at) return;
      rows[i] = reinterpret_cast<uint16_t*>(at);
    }
    for (uint32_t matrix = 0; matrix < s.mode; ++matrix)
      for (uint32_t l = 0; l < 32; ++l) {
        auto* const halves = reinterpret_cast<uint16_t*>(m.at<uint32_t>((*m.more)[s.b + matrix]) + first + l);
        for (uint32_t i = 0; i < 2; ++i) {
          const uint32_t row = transposed ? 2 * (l % 4) + i : l / 4, column = transposed ? l / 4 : 2 * (l % 4) + i;
          uint16_t& there = rows[8 * matrix + row][column];
          (store ? there : halves[i]) = store ? halves[i] : there;
        }
      }
  });
}

bool decode_matrices(Decoder& d, bool store) {
  if (!d.has(".m8n8") || d.type() != Type::b16) return false;
  const Decoder::Address at = d.address(d.operand(store ? 0 : 1), d.space());
  std::vector<Slot> slots;
  for (const Operand& part : d.parts(d.operand(store ? 1 : 0)))
    slots.push_back(store ? d.source(part, Type::b32) : d.destination(part, Type::b32));
  if (slots.size() != 1 && slots.size() != 2 && slots.size() != 4) return false;
  Step& step = d.emit(matrices, kNoSlot, at.slot, d.more(slots));
  step.mode = static_cast<uint8_t>(slots.size());
  step.mode2 = static_cast<uint8_t>((d.has(".trans") ? 1 : 0) | (store ? 2 : 0) | (at.shared ? 4 : 0) |
                                    (at.shared && at.wide == 4 ? 8 : 0));
  step.immediate = at.added;
  step.extra = d.cache();
  return true;
}

// --- mma ---

// Of a register's part, as a number.
double element(Type type, const uint8_t* reg, uint32_t i) {
  uint16_t half = 0;
  uint32_t word = 0;
  double wide = 0;
  switch (type) {
    case Type::f16:
      std::memcpy(&half, reg + 2 * i, 2);
      return static_cast<double>(half_to_float(half));
    case Type::bf16:
      std::memcpy(&half, reg + 2 * i, 2);
      return static_cast<double>(bfloat_to_float(half));
    case Type::s8:
      return static_cast<double>(static_cast<int8_t>(reg[i]));
    case Type::u8:
      return static_cast<double>(reg[i]);
    case Type::e4m3:
      return static_cast<double>(small_to_float(reg[i], 3));
    case Type::e5m2:
      return static_cast<double>(small_to_float(reg[i], 2));
    case Type::f64:
      std::memcpy(&wide, reg, 8);
      return wide;
    case Type::s32:
      std::memcpy(&word, reg, 4);
      return static_cast<double>(static_cast<int32_t>(word));
    case Type::tf32:
      std::memcpy(&word, reg, 4);
      word &= ~0x1fffu;
      return static_cast<double>(std::bit_cast<float>(word));
    default:
      std::memcpy(&word, reg, 4);
      return static_cast<double>(std::bit_cast<float>(word));
  }
}

void set_element(Type type, uint8_t* reg, uint32_t i, double value, bool saturate) {
  if (type == Type::f16) {
    const uint16_t half = half_of(value);
    std::memcpy(reg + 2 * i, &half, 2);
  } else if (type == Type::f64) {
    std::memcpy(reg, &value, 8);
  } else if (type == Type::s32) {
    const auto whole = static_cast<int64_t>(value);
    const auto word = saturate ? static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(whole, INT32_MIN), INT32_MAX))
                               : static_cast<int32_t>(whole);
    std::memcpy(reg, &word, 4);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(reg, &single, 4);
  }
}

struct Shape {
  uint32_t rows = 0, columns = 0, depth = 0;
};

// What stands in more: shape, types, then registers of d, a, b, c.
struct Fragments {
  Shape shape;
  Type d, a, b, c;
  bool saturate;
  const Slot* registers[4];
  uint32_t counts[4];
};

Fragments fragments(const Machine& m, const Step& s) {
  const Slot* at = m.more->data() + s.extra;
  Fragments f{};
  f.shape = {at[0], at[1], at[2]};
  f.d = static_cast<Type>(at[3]);
  f.a = static_cast<Type>(at[4]);
  f.b = static_cast<Type>(at[5]);
  f.c = static_cast<Type>(at[6]);
  f.saturate = at[7];
  at += 8;
  for (int i = 0; i < 4; ++i) {
    f.counts[i] = *at++;
    f.registers[i] = at;
    at += f.counts[i];
  }
  return f;
}

constexpr uint32_t kMostRows = 16, kMostColumns = 8, kMostDepth = 64;

// The places of a fragment's numbers are the manual's: lanes in groups of four, a group a row of A and a column of B.
void multiply(Machine& m, const Step& s) {
  const Fragments f = fragments(m, s);
  const auto bytes_of = [](Type type) { return static_cast<uint32_t>(ptx::bytes_of(type)); };
  const auto in_register = [&](Type type) { return bytes_of(type) >= 4 ? 1 : 4 / bytes_of(type); };
  whole_warps(m, [&](uint32_t first) {
    double a[kMostRows][kMostDepth] = {}, b[kMostColumns][kMostDepth] = {};
    const auto reg = [&](int which, uint32_t r, uint32_t lane) {
      const Type types[] = {f.d, f.a, f.b, f.c};
      const uint32_t width = bytes_of(types[which]) == 8 ? 8 : 4;
      return reinterpret_cast<uint8_t*>(m.at<uint32_t>(f.registers[which][r])) + size_t{width} * (first + lane);
    };
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t group = l / 4, in_group = l % 4;
      const uint32_t ea = in_register(f.a), eb = in_register(f.b);
      const uint32_t halves = f.shape.rows == 16 ? 2 : 1;
      for (uint32_t r = 0; r < f.counts[1]; ++r)
        for (uint32_t i = 0; i < ea; ++i)
          a[(group + 8 * (r % halves)) % kMostRows][(in_group * ea + i + r / halves * 4 * ea) % kMostDepth] =
              element(f.a, reg(1, r, l), i);
      for (uint32_t r = 0; r < f.counts[2]; ++r)
        for (uint32_t i = 0; i < eb; ++i)
          b[group][(in_group * eb + i + r * 4 * eb) % kMostDepth] = element(f.b, reg(2, r, l), i);
    }
    const uint32_t ec = in_register(f.c), ed = in_register(f.d);
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t i = 0; i < f.shape.rows / 4; ++i) {
        const uint32_t row = l / 4 + 8 * (i / 2), column = l % 4 * 2 + i % 2;
        double sum = element(f.c, reg(3, i / ec, l), i % ec);
        for (uint32_t k = 0; k < f.shape.depth; ++k) sum += a[row][k] * b[column][k];
        set_element(f.d, reg(0, i / ed, l), i % ed, sum, f.saturate);
      }
  });
}

bool read_shape(Decoder& d, Shape* shape) {
  struct Row {
    std::string_view name;
    Shape shape;
  };
  static constexpr Row kShapes[] = {{".m16n8k4", {16, 8, 4}},
                                    {".m16n8k8", {16, 8, 8}},
                                    {".m16n8k16", {16, 8, 16}},
                                    {".m16n8k32", {16, 8, 32}},
                                    {".m8n8k16", {8, 8, 16}}};
  for (const Row& row : kShapes)
    if (d.has(row.name)) return *shape = row.shape, true;
  // Of 64 bits; that of f16 has a layout of its own.
  if (d.has(".m8n8k4") && d.type() == Type::f64) return *shape = {8, 8, 4}, true;
  return false;
}

bool decode_mma(Decoder& d) {
  Shape shape;
  if (d.types().size() != 4 || d.operand_count() != 4 || d.has(".sp") || !read_shape(d, &shape)) return false;
  std::vector<Slot> more = {shape.rows, shape.columns, shape.depth};
  for (const Type type : d.types()) more.push_back(static_cast<Slot>(type));
  more.push_back(d.has(".satfinite"));
  // d is written when all has been read; its registers may be c's.
  for (size_t i = 0; i < 4; ++i) {
    const Type type = d.types()[i] == Type::f64 ? Type::b64 : Type::b32;
    const std::vector<Operand> parts = d.parts(d.operand(i));
    const size_t bits = 8 * (ptx::bytes_of(d.types()[i]));
    const uint32_t depth = i == 1   ? shape.rows * shape.depth
                           : i == 2 ? shape.columns * shape.depth
                                    : shape.rows * shape.columns;
    if (parts.size() * ptx::bytes_of(type) * 8 * 32 != depth * bits) return false;
    more.push_back(static_cast<Slot>(parts.size()));
    for (const Operand& part : parts) more.push_back(i == 0 ? d.destination(part, type) : d.source(part, type));
  }
  const uint32_t extra = d.more(more);
  d.emit(multiply).extra = extra;
  return true;
}

}  // namespace

bool decode_matrix(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "mma") return decode_mma(d);
  return decode_matrices(d, op == "stmatrix");
}

}  // namespace devtrace::simulate::kernels

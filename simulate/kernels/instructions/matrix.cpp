// Matrices of a warp: ldmatrix, stmatrix, mma.
#include <string>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/fragments.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

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

// The places of a fragment's numbers are the manual's: lanes in groups of four, a group a row of A and a column of B.
void multiply(Machine& m, const Step& s) {
  const Fragments f = fragments(m, s);
  const auto reg = [&](int which, uint32_t r, uint32_t lane) {
    const Type types[] = {f.d, f.a, f.b, f.c};
    return register_of(m, f.registers[which][r], types[which], lane);
  };
  whole_warps(m, [&](uint32_t first) {
    Product p;
    p.rows = f.shape.rows;
    p.columns = f.shape.columns;
    p.depth = f.shape.depth;
    p.exclusive = s.mode;
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t group = l / 4, in_group = l % 4;
      const uint32_t ea = in_register(f.a), eb = in_register(f.b);
      const uint32_t halves = f.shape.rows == 16 ? 2 : 1;
      for (uint32_t r = 0; r < f.counts[1]; ++r)
        for (uint32_t i = 0; i < ea; ++i)
          p.a[group + 8 * (r % halves)][in_group * ea + i + r / halves * 4 * ea] =
              element(f.a, reg(1, r, first + l), i);
      for (uint32_t r = 0; r < f.counts[2]; ++r)
        for (uint32_t i = 0; i < eb; ++i)
          p.b[in_group * eb + i + r * 4 * eb][group] = element(f.b, reg(2, r, first + l), i);
    }
    const uint32_t ec = in_register(f.c), ed = in_register(f.d);
    const auto each = [&](auto what) {
      for (uint32_t l = 0; l < 32; ++l)
        for (uint32_t i = 0; i < f.shape.rows / 4; ++i)
          what(first + l, i, p.sums[l / 4 + 8 * (i / 2)][l % 4 * 2 + i % 2]);
    };
    each([&](uint32_t l, uint32_t i, double& sum) { sum = element(f.c, reg(3, i / ec, l), i % ec); });
    p.compute();
    each([&](uint32_t l, uint32_t i, double sum) { set_element(f.d, reg(0, i / ed, l), i % ed, sum, f.saturate); });
  });
}

bool read_shape(Decoder& d, Shape* shape) {
  struct Row {
    std::string_view name;
    Shape shape;
  };
  static constexpr Row kShapes[] = {{".m16n8k4", {16, 8, 4}},     {".m16n8k8", {16, 8, 8}},
                                    {".m16n8k16", {16, 8, 16}},   {".m16n8k32", {16, 8, 32}},
                                    {".m16n8k64", {16, 8, 64}},   {".m16n8k128", {16, 8, 128}},
                                    {".m16n8k256", {16, 8, 256}}, {".m8n8k16", {8, 8, 16}},
                                    {".m8n8k32", {8, 8, 32}},     {".m8n8k128", {8, 8, 128}}};
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
    const uint32_t count = i == 1   ? shape.rows * shape.depth
                           : i == 2 ? shape.columns * shape.depth
                                    : shape.rows * shape.columns;
    if (parts.size() * ptx::bytes_of(type) * 8 * 32 != size_t{count} * bits_of(d.types()[i])) return false;
    more.push_back(static_cast<Slot>(parts.size()));
    for (const Operand& part : parts) more.push_back(i == 0 ? d.destination(part, type) : d.source(part, type));
  }
  const uint32_t extra = d.more(more);
  Step& step = d.emit(multiply);
  step.extra = extra;
  step.mode = d.has(".xor");
  return true;
}

}  // namespace

bool decode_matrix(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "mma") return decode_mma(d);
  return decode_matrices(d, op == "stmatrix");
}

}  // namespace devtrace::simulate::kernels

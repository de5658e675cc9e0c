// wmma: matrices of a warp whose numbers lie in registers as the implementation likes: PTX only hands them on.
#include <cstring>
#include <string_view>
#include <vector>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/fragments.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

struct Extents {
  uint32_t rows = 0, columns = 0;
};
struct Spot {
  uint32_t row = 0, column = 0;
};

// Where element i of a lane's registers stands. Sums of 16 by 16 lie as hardware has them, which some programs rely on.
// Registers that are more than the matrix needs repeat it.
Spot spot(Extents matrix, bool sums, uint32_t lane, uint32_t i) {
  const uint32_t each = matrix.rows * matrix.columns / 32;
  if (sums && matrix.rows == 16 && matrix.columns == 16)
    return {lane / 4 + 8 * (i / 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i / 4)};
  const uint32_t n = lane * each + i % each;
  return {n / matrix.columns, n % matrix.columns};
}

// In Step::more from extra on: rows, columns, whether rows lie together, whether it holds sums, registers. a: address;
// b: elements from one row (column) to the next.
template <class A, bool kShared, bool kStore>
void move(Machine& m, const Step& s) {
  const Slot* const more = m.more->data() + s.c;
  const Extents matrix = {more[0], more[1]};
  const bool by_rows = more[2], sums = more[3];
  const uint32_t registers = more[4];
  const auto type = static_cast<ptx::Type>(s.mode);
  const uint32_t bits = bits_of(type), in_each = in_register(type), bytes = bits < 8 ? 1 : bits / 8;
  whole_warps(m, [&](uint32_t first) {
    for (uint32_t l = first; l < first + 32; ++l)
      for (uint32_t r = 0; r < registers; ++r)
        for (uint32_t i = 0; i < in_each; ++i) {
          const Spot at = spot(matrix, sums, l % 32, r * in_each + i);
          const uint64_t stride = m.at<uint32_t>(s.b)[l];
          const uint64_t n = by_rows ? at.row * stride + at.column : at.column * stride + at.row;
          const A address = static_cast<A>(m.at<A>(s.a)[l] + n * bits / 8);
          uint8_t* const there = access<A, kShared>(m, s, l, address, bytes, bytes, kStore);
          if (!there) return;
          uint8_t* const here = register_of(m, more[5 + r], type, l);
          if (kStore) {
            std::memcpy(there, here + size_t{i} * bytes, bytes);
          } else if (bits < 8) {
            const uint32_t shift = n * bits % 8, mask = (1u << bits) - 1, to = i * bits % 8;
            uint8_t& part = here[i * bits / 8];
            part = static_cast<uint8_t>((part & ~(mask << to)) | (there[0] >> shift & mask) << to);
          } else {
            std::memcpy(here + size_t{i} * bytes, there, bytes);
          }
        }
  });
}

struct Shape {
  std::string_view name;
  uint32_t rows, columns, depth;
};
constexpr Shape kShapes[] = {{".m16n16k16", 16, 16, 16}, {".m8n32k16", 8, 32, 16}, {".m32n8k16", 32, 8, 16},
                             {".m16n16k8", 16, 16, 8},   {".m8n8k4", 8, 8, 4},     {".m8n8k32", 8, 8, 32},
                             {".m8n8k128", 8, 8, 128}};

const Shape* shape_of(Decoder& d) {
  for (const Shape& one : kShapes)
    if (d.has(one.name)) return &one;
  return nullptr;
}

bool is_sum(ptx::Type type, bool may_be_half) {
  return type == Type::f32 || type == Type::s32 || type == Type::f64 || (may_be_half && type == Type::f16);
}

// Registers of a fragment, each of its elements a whole number of times.
bool fits(size_t registers, Extents matrix, ptx::Type type) {
  const size_t all = registers * in_register(type), each = matrix.rows * matrix.columns / 32;
  return registers && each && all % each == 0;
}

bool decode_move(Decoder& d, const Shape& shape, bool store) {
  const Type type = d.type();
  const bool a = d.has(".a"), b = d.has(".b"), sums = store || d.has(".c");
  if (!bits_of(type) || a + b + sums != 1) return false;
  const Extents matrix = {b ? shape.depth : shape.rows, a ? shape.depth : shape.columns};
  const bool by_rows = d.has(".row");
  const Decoder::Address at = d.address(d.operand(store ? 0 : 1), d.space());
  if (at.parameters) return false;
  const Type in = bits_of(type) == 64 ? Type::b64 : Type::b32;
  std::vector<Slot> more = {matrix.rows, matrix.columns, by_rows, sums, 0};
  for (const Operand& part : d.parts(d.operand(store ? 1 : 0)))
    more.push_back(store ? d.source(part, in) : d.destination(part, in));
  more[4] = static_cast<Slot>(more.size() - 5);
  if (!fits(more[4], matrix, type) || (sums && !is_sum(type, true))) return false;
  const Slot stride =
      d.operand_count() > 2 ? d.source(2, Type::b32) : d.constant(by_rows ? matrix.columns : matrix.rows, 4);
  const auto pick = [&]<bool kStore>() -> Handler {
    if (!at.shared) return &move<uint64_t, false, kStore>;
    return at.wide == 4 ? &move<uint32_t, true, kStore> : &move<uint64_t, true, kStore>;
  };
  const Slot registers = d.more(more);
  Step& step = d.emit(store ? pick.operator()<true>() : pick.operator()<false>(), kNoSlot, at.slot, stride, registers);
  step.mode = static_cast<uint8_t>(type);
  step.immediate = at.added;
  step.extra = d.cache();
  return true;
}

// In Step::more from c on: the shape, then of d, a, b, c the type, how many registers, and these.
struct Part {
  ptx::Type type = ptx::Type::none;
  uint32_t count = 0;
  const Slot* registers = nullptr;
};

void multiply(Machine& m, const Step& s) {
  const Slot* more = m.more->data() + s.c;
  const uint32_t rows = more[0], columns = more[1], depth = more[2];
  more += 3;
  Part parts[4];
  for (Part& part : parts) {
    part = {static_cast<ptx::Type>(more[0]), more[1], more + 2};
    more += 2 + part.count;
  }
  // f(lane, element's number, spot, its registers) for each element once.
  const auto each = [&](uint32_t first, const Part& part, Extents matrix, bool sums, auto f) {
    const uint32_t in_each = in_register(part.type), all = matrix.rows * matrix.columns / 32;
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t i = 0; i < all; ++i)
        f(spot(matrix, sums, l, i), register_of(m, part.registers[i / in_each], part.type, first + l), i % in_each);
  };
  whole_warps(m, [&](uint32_t first) {
    Product p;
    p.rows = rows;
    p.columns = columns;
    p.depth = depth;
    p.exclusive = s.mode;
    const auto& [to, a, b, c] = parts;
    each(first, a, {rows, depth}, false,
         [&](Spot at, const uint8_t* reg, uint32_t i) { p.a[at.row][at.column] = element(a.type, reg, i); });
    each(first, b, {depth, columns}, false,
         [&](Spot at, const uint8_t* reg, uint32_t i) { p.b[at.row][at.column] = element(b.type, reg, i); });
    each(first, c, {rows, columns}, true,
         [&](Spot at, const uint8_t* reg, uint32_t i) { p.sums[at.row][at.column] = element(c.type, reg, i); });
    p.compute();
    each(first, to, {rows, columns}, true,
         [&](Spot at, uint8_t* reg, uint32_t i) { set_element(to.type, reg, i, p.sums[at.row][at.column], s.mode2); });
  });
}

bool decode_multiply(Decoder& d, const Shape& shape) {
  if (d.operand_count() != 4) return false;
  std::vector<Type> types = d.types();
  if (types.size() == 2) types = {types[0], Type::f16, Type::f16, types[1]};  // the only ones that are not named
  if (types.size() != 4 || !is_sum(types[0], true) || !is_sum(types[3], true)) return false;
  const Extents extents[] = {{shape.rows, shape.columns},
                             {shape.rows, shape.depth},
                             {shape.depth, shape.columns},
                             {shape.rows, shape.columns}};
  std::vector<Slot> more = {shape.rows, shape.columns, shape.depth};
  for (size_t i = 0; i < 4; ++i) {
    if (!bits_of(types[i])) return false;
    const std::vector<Operand> parts = d.parts(d.operand(i));
    if (!fits(parts.size(), extents[i], types[i])) return false;
    more.push_back(static_cast<Slot>(types[i]));
    more.push_back(static_cast<Slot>(parts.size()));
    const Type in = bits_of(types[i]) == 64 ? Type::b64 : Type::b32;
    for (const Operand& part : parts) more.push_back(i == 0 ? d.destination(part, in) : d.source(part, in));
  }
  const Slot all = d.more(more);
  Step& step = d.emit(multiply, kNoSlot, kNoSlot, kNoSlot, all);
  step.mode = d.has(".xor");
  step.mode2 = d.has(".satfinite");
  return true;
}

}  // namespace

bool decode_wmma(Decoder& d) {
  const Shape* const shape = shape_of(d);
  if (!shape) return false;
  if (d.has(".mma")) return decode_multiply(d, *shape);
  return (d.has(".load") || d.has(".store")) && decode_move(d, *shape, d.has(".store"));
}

}  // namespace devtrace::simulate::kernels

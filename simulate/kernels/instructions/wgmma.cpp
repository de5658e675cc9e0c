// wgmma: products of a warpgroup's matrices, B in shared memory and A there or in registers. Each warp has sixteen of
// the 64 rows, and does its part when it comes there, at once. Nobody may change the matrices before wgmma.wait_group,
// where there is nothing left to wait for.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/fragments.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr uint32_t kRows = 16;        // of a warp
constexpr uint32_t kUnit = 16;        // bytes: of these all layouts are made
constexpr uint32_t kDepthBytes = 32;  // of a matrix's row, in each shape

// PTX ISA, "Matrix Descriptor Format".
struct Descriptor {
  uint32_t start, leading, stride, swizzle_bytes;

  explicit Descriptor(uint64_t bits)
      : start(part(bits, 0)), leading(part(bits, 16)), stride(part(bits, 32)), swizzle_bytes(kSwizzles[bits >> 62]) {}
  // Of a unit that lies so many bytes behind the start: eight rows of 128 bytes exchange their units (four of them in
  // narrower patterns).
  uint32_t swizzled(uint32_t offset) const {
    const uint32_t address = start + offset;
    const uint32_t mask = swizzle_bytes / kUnit - 1;  // of none: 0
    return address ^ (address / 128 & mask) * kUnit;
  }

 private:
  static constexpr uint32_t kSwizzles[] = {16, 128, 64, 32};
  static uint32_t part(uint64_t bits, int at) { return static_cast<uint32_t>(bits >> at & 0x3fff) * kUnit; }
};

// "Strides": where the unit lies that has this row, and these bytes along k.
uint32_t by_depth(const Descriptor& d, uint32_t row, uint32_t depth_unit) {
  const uint32_t along = d.swizzle_bytes == kUnit ? depth_unit * d.leading : depth_unit * kUnit;
  return d.swizzled(row % 8 * d.swizzle_bytes + row / 8 * d.stride + along);
}
// The same where eight rows' numbers of 16 bits lie side by side.
uint32_t by_rows(const Descriptor& d, uint32_t row_unit, uint32_t k) {
  if (d.swizzle_bytes == kUnit) return d.swizzled(row_unit * d.stride + k % 8 * kUnit + k / 8 * d.leading);
  const uint32_t wide = d.swizzle_bytes / kUnit;
  return d.swizzled(row_unit % wide * kUnit + row_unit / wide * d.leading + k % 8 * d.swizzle_bytes + k / 8 * d.stride);
}

double in_unit(ptx::Type type, const uint8_t* unit, uint32_t i) {
  return bits_of(type) == 32 ? element(type, unit + 4 * i, 0) : element(type, unit, i);
}

// put(row, k, value) for `count` rows from `first` on. False: it is a fault.
template <class Put>
bool read_shared(Machine& m, uint32_t lane, uint64_t bits, ptx::Type type, bool transposed, uint32_t first,
                 uint32_t count, Put put) {
  const Descriptor d(bits);
  const uint32_t in_each = 8 * kUnit / bits_of(type), depth = 8 * kDepthBytes / bits_of(type);
  const auto unit = [&](uint32_t at) { return reach_shared(m, lane, at, kUnit, kUnit, false); };
  for (uint32_t row = 0; !transposed && row < count; ++row)
    for (uint32_t k = 0; k < depth; k += in_each) {
      const uint8_t* const at = unit(by_depth(d, first + row, k / in_each));
      if (!at) return false;
      for (uint32_t i = 0; i < in_each; ++i) put(row, k + i, in_unit(type, at, i));
    }
  for (uint32_t k = 0; transposed && k < depth; ++k)
    for (uint32_t row = 0; row < count; row += in_each) {
      const uint8_t* const at = unit(by_rows(d, (first + row) / in_each, k));
      if (!at) return false;
      for (uint32_t i = 0; i < in_each; ++i) put(row + i, k, in_unit(type, at, i));
    }
  return true;
}

// What stands in Step::more, then the registers of d and, if there are any, of a.
struct Shape {
  uint32_t columns, depth;
  ptx::Type d, a, b;
  bool saturate, transposed_a, transposed_b, negative;
  uint32_t sums, of_a;  // registers
};
constexpr size_t kWords = 11;

Shape shape_of(const Slot* at) {
  return {at[0],
          at[1],
          static_cast<ptx::Type>(at[2]),
          static_cast<ptx::Type>(at[3]),
          static_cast<ptx::Type>(at[4]),
          at[5] != 0,
          at[6] != 0,
          at[7] != 0,
          at[8] != 0,
          at[9],
          at[10]};
}

// a: A's descriptor, if it has one; b: B's; c: whether the sums so far count.
void multiply(Machine& m, const Step& s) {
  const Slot* const more = m.more->data() + s.extra;
  const Shape shape = shape_of(more);
  const Slot *const sums = more + kWords, *const of_a = sums + shape.sums;
  const uint32_t each_d = in_register(shape.d), each_a = in_register(shape.a);
  whole_warps(m, [&](uint32_t first) {
    Product p;
    p.rows = kRows;
    p.depth = shape.depth;
    p.exclusive = false;
    const double sign = shape.negative ? -1 : 1;
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t r = 0; r < shape.of_a; ++r)
        for (uint32_t i = 0; i < each_a; ++i)
          p.a[l / 4 + 8 * (r % 2)][l % 4 * each_a + i + r / 2 * 4 * each_a] =
              sign * element(shape.a, register_of(m, of_a[r], shape.a, first + l), i);
    if (!shape.of_a &&
        !read_shared(m, first, m.at<uint64_t>(s.a)[first], shape.a, shape.transposed_a, first / 32 % 4 * kRows, kRows,
                     [&](uint32_t row, uint32_t k, double value) { p.a[row][k] = sign * value; }))
      return;
    for (uint32_t begin = 0; begin < shape.columns; begin += p.columns) {
      p.columns = std::min(Product::kMostColumns, shape.columns - begin);
      if (!read_shared(m, first, m.at<uint64_t>(s.b)[first], shape.b, shape.transposed_b, begin, p.columns,
                       [&](uint32_t column, uint32_t k, double value) { p.b[k][column] = value; }))
        return;
      // Each lane has two neighbours of every eighth column, in a row and in the eighth behind it.
      const auto each = [&](auto what) {
        for (uint32_t l = 0; l < 32; ++l)
          for (uint32_t i = 0; i < p.columns / 2; ++i)
            what(first + l, i + begin / 2, p.sums[l / 4 + 8 * (i / 2 % 2)][i / 4 * 8 + l % 4 * 2 + i % 2]);
      };
      each([&](uint32_t l, uint32_t i, double& sum) {
        sum = m.at<uint8_t>(s.c)[l] ? element(shape.d, register_of(m, sums[i / each_d], shape.d, l), i % each_d) : 0;
      });
      p.compute();
      each([&](uint32_t l, uint32_t i, double sum) {
        set_element(shape.d, register_of(m, sums[i / each_d], shape.d, l), i % each_d, sum, shape.saturate);
      });
    }
  });
}

// .m64nNk16
bool read_shape(Decoder& d, uint32_t* columns, uint32_t* depth) {
  constexpr std::string_view kBegin = ".m64n";
  for (const std::string_view modifier : d.instruction().modifiers) {
    if (!modifier.starts_with(kBegin)) continue;
    const char *at = modifier.data() + kBegin.size(), *const end = modifier.data() + modifier.size();
    const auto [behind, error] = std::from_chars(at, end, *columns);
    return error == std::errc() && behind < end && *behind == 'k' &&
           std::from_chars(behind + 1, end, *depth).ec == std::errc() && *columns % 8 == 0 && *columns >= 8 &&
           *columns <= 256;
  }
  return false;
}

// A number that stands in the text: of a scale or a transposition.
int number(Decoder& d, size_t i) {
  return d.operand(i).kind == Operand::Kind::integer ? static_cast<int>(static_cast<int64_t>(d.operand(i).value)) : 0;
}

bool decode_product(Decoder& d) {
  uint32_t columns = 0, depth = 0;
  const std::vector<Type>& types = d.types();
  if (types.size() != 3 || d.operand_count() < 4 || d.has(".sp") || !read_shape(d, &columns, &depth)) return false;
  const uint32_t bits = bits_of(types[1]);
  if (!bits || bits_of(types[2]) != bits || bits * depth != 8 * kDepthBytes) return false;
  // Behind the scale of d: of a and b, 1 or -1; of 16 bits then whether they are transposed, of a where it is in
  // memory.
  const bool in_registers = d.operand(1).kind == Operand::Kind::vector;
  bool transposed_a = false, transposed_b = false;
  const size_t count = d.operand_count();
  const bool negative = count > 5 && number(d, 4) * number(d, 5) < 0;
  if (bits == 16 && count > 6) {
    transposed_a = !in_registers && number(d, 6);
    transposed_b = number(d, in_registers ? 6 : 7);
  }
  const std::vector<Operand> to = d.parts(d.operand(0));
  std::vector<Operand> from;
  if (in_registers) from = d.parts(d.operand(1));
  if (to.size() * in_register(types[0]) != columns / 2 || (in_registers && from.size() != 4)) return false;
  std::vector<Slot> more = {columns,
                            depth,
                            static_cast<Slot>(types[0]),
                            static_cast<Slot>(types[1]),
                            static_cast<Slot>(types[2]),
                            d.has(".satfinite"),
                            transposed_a,
                            transposed_b,
                            negative,
                            static_cast<Slot>(to.size()),
                            static_cast<Slot>(from.size())};
  for (const Operand& part : to) more.push_back(d.destination(part, Type::b32));
  for (const Operand& part : from) more.push_back(d.source(part, Type::b32));
  const Slot a = in_registers ? kNoSlot : d.source(1, Type::b64), b = d.source(2, Type::b64);
  const Slot sums = d.predicate(d.operand(3));
  const uint32_t extra = d.more(more);
  d.emit(multiply, kNoSlot, a, b, sums).extra = extra;
  return true;
}

}  // namespace

bool decode_wgmma(Decoder& d) {
  if (d.has(".fence") || d.has(".commit_group") || d.has(".wait_group")) return true;
  return d.has(".mma_async") && decode_product(d);
}

}  // namespace devtrace::simulate::kernels

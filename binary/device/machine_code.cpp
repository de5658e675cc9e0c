// What machine code does with a kernel's parameters, by following them through registers in the order of the code. That
// is the way a thread takes where the code does not jump; where it always jumps, nothing is known of what comes next.
#include <algorithm>
#include <cstring>

#include "binary/device/formats.h"
#include "binary/device/registers.h"

namespace devtrace::device {
namespace {

constexpr size_t kMostRanges = 2 * kMostParameterBytes / 8;
constexpr size_t kMostArrays = 64;

struct Reader {
  Bytes bank;
  View constants;
  unsigned architecture;
  KernelFacts* facts;
  std::vector<Bytes> numbers;
  std::vector<bool> of_numbers;  // of facts->arrays: what is taken from it is multiplied by
  Registers registers{architecture};

  using Kind = Value::Kind;

  bool is_parameter(size_t offset) const { return offset >= bank.begin && offset < bank.end; }
  Value constant(const Instruction& i) const {
    const size_t offset = i.constant();
    uint32_t number;
    if (i.has_constant(2) && constants.read(offset, number)) return Value::number(number);
    return i.has_constant() && is_parameter(offset) ? Value::word(offset - bank.begin) : Value();
  }
  Value operand_a(const Instruction& i) const { return registers.get(i.uniform(), i.a()); }
  Value operand_b(const Instruction& i) const {
    switch (i.form()) {
      case 1:
        return registers.get(i.uniform(), i.b());
      case 4:
        return Value::number(i.number());
      case 5:
        return constant(i);
      case 6:
        return registers.get(true, i.b());
      case 2:
      case 3:
      case 7:
        return registers.get(i.uniform(), i.c());
      default:
        return {};
    }
  }
  Value operand_c(const Instruction& i) const {
    switch (i.form()) {
      case 2:
        return Value::number(i.number());
      case 3:
        return constant(i);
      case 7:
        return registers.get(true, i.b());
      default:
        return registers.get(i.uniform(), i.c());
    }
  }

  // What it computes, as far as that is followed.
  Value result(const Instruction& i) const {
    const Value a = operand_a(i);
    Value found;
    switch (i.operation()) {
      case kMov:
      case kUmov:
        return operand_b(i);
      case kR2ur:
      case kR2urAmpere:
        return registers.get(false, i.a());
      case kS2r:
      case kS2ur:
        return i.block_dimension() < 0 ? Value() : Value::block(i.block_dimension());
      case kHfma2:
      case kIadd64:
        if (i.multiplies_halves()) return a.is_number(0) && i.form() == 2 ? Value::number(i.number()) : Value();
        [[fallthrough]];
      case kViadd:
        found = sum(a, operand_b(i));
        break;
      case kIadd3:
      case kUiadd3:
        found = sum(sum(a, operand_b(i)), operand_c(i));
        break;
      case kLea:
      case kUlea: {
        const Value shifted = i.gives_high_half() ? Value() : product(a, Value::number(1u << i.shift()));
        return sum(shifted.is(Kind::number) ? shifted : Value(), operand_b(i));
      }
      case kShf:
      case kUshf:
        if (!i.shifts_left() || i.gives_high_half() || i.form() != 4 || i.number() > 31) return {};
        found = registers.get(i.uniform(), i.c()).is_number(0) ? product(a, Value::number(1u << i.number())) : Value();
        return found.is(Kind::number) ? found : Value();
      case kImad:
      case kImadWide:
      case kUimad:
      case kUimadWide:
        found = sum(product(a, operand_b(i)), operand_c(i));
        break;
      default:
        return {};
    }
    return found.is(Kind::number) && (i.negates() || i.carries()) ? Value() : found;
  }

  void number(const Value& value) {
    if (value.is(Kind::entry)) of_numbers[value.offset] = true;
    if (!value.is(Kind::word) && !value.is(Kind::somewhere)) return;
    const size_t offset = value.offset & ~uint32_t{7};
    numbers.push_back({offset, offset + 8});
  }
  // An address stands in whole words, at their beginning.
  void follow(const Value& value, bool always) {
    if (value.is(Kind::word) && value.offset % 8 == 0)
      (always ? facts->follows : facts->follows_perhaps).push_back({value.offset, value.offset + size_t{8}});
    if (value.is(Kind::entry) && always) facts->arrays[value.offset].followed = true;
  }
  void store(const Value& value) {
    if (value.is(Kind::word) && value.offset % 8 == 0)
      facts->writes.push_back({value.offset, value.offset + size_t{8}});
    else
      facts->writes_elsewhere = true;
  }

  // The entry of the array that begins at `offset`; unknown: there are too many.
  Value entry(size_t offset, const Value& index) {
    const Counted& counted = index.counted;
    const Array array{offset, 0, index.scale, counted.dimension, counted.table, counted.table_width, false};
    std::vector<Array>& known = facts->arrays;
    const auto same = std::ranges::find_if(known, [&](Array one) {
      one.followed = false;
      return one == array;
    });
    const auto number = static_cast<size_t>(same - known.begin());
    if (number == kMostArrays) return {};
    if (same == known.end()) known.push_back(array);
    of_numbers.resize(known.size());
    return Value::of(Kind::entry, number);
  }

  void set_loaded(const Instruction& i, size_t offset, Kind kind) {
    for (size_t each = 0; each < i.loaded(); each += 4)
      registers.set(i.uniform(), i.destination() + static_cast<unsigned>(each / 4), Value::of(kind, offset + each));
  }

  // A load from the parameters at a place that depends on the block: an entry of an array, or the number of one.
  void read_entry(const Instruction& i, size_t offset, const Value& index) {
    const bool whole = i.loaded() >= 8 && index.scale >= i.loaded() && offset % 8 == 0;
    const bool tabled = i.loaded() == 4 && index.scale == i.loaded_from() && index.counted.table_width == 0;
    for (unsigned each = 0; whole && each < i.loaded(); each += 8)
      registers.set(i.uniform(), i.destination() + each / 4, entry(offset + each, index));
    if (tabled)
      registers.set(i.uniform(), i.destination(),
                    {Kind::number,
                     0,
                     1,
                     {index.counted.dimension, static_cast<uint8_t>(i.loaded_from()), static_cast<uint32_t>(offset)}});
  }

  void load(const Instruction& i) {
    const Value index = i.indexed() && i.has_constant() ? registers.get(i.index_is_uniform(), i.a()) : Value::number(0);
    for (unsigned each = 0; each < i.writes(); ++each) registers.set(i.uniform(), i.destination() + each, {});
    if (i.has_constant(2) && !i.indexed() && i.loaded_from() == 4)
      registers.set(i.uniform(), i.destination(), constant(i));
    if (!i.has_constant()) return;
    const size_t from = static_cast<uint32_t>(i.constant() + (index.is(Kind::number) ? index.offset : 0));
    if (!is_parameter(from)) return;
    const size_t offset = from - bank.begin;
    if (index.is(Kind::number) && !index.is_fixed()) return read_entry(i, offset, index);
    // An address is loaded as a whole; half a word is a number, or a table's beginning that an index is added to.
    if (i.loaded() >= 8) facts->reads.push_back({offset, offset + i.loaded()});
    // The index may have the array's place in it: then what stands at `offset` is something else.
    if (index.is_fixed() || i.operation() != kUldcIndexed)
      set_loaded(i, offset, index.is_fixed() ? Kind::word : Kind::somewhere);
  }

  void read(const Instruction& i) {
    const Value operand = constant(i);
    if (i.takes_number()) {
      if (i.form() == 6) number(registers.get(true, i.b()));
      if (i.form() == 1) number(registers.get(i.uniform(), i.b()));
      if (i.form() == 5) number(operand);
    }
    if (i.goes_to_memory()) {
      const bool with_uniform = architecture < 80 && i.form() == 4;
      const Value address =
          sum(registers.get(false, i.a()), with_uniform ? registers.get(true, i.uniform_base()) : Value());
      follow(address, i.always());
      if (i.stores()) store(address);
    }
    if (i.loads_constant()) {
      load(i);
    } else {
      const Value found = result(i);
      if (!i.writes_nothing()) {
        const Value rest = Value::of(i.loads_address() ? Kind::either : Kind::unknown, 0);
        for (unsigned each = 0; each < i.writes(); ++each) registers.set(i.uniform(), i.destination() + each, rest);
        if (!found.is(Kind::unknown)) registers.set(i.uniform(), i.destination(), found);
        if (i.writes() == 2 && found.is(Kind::word))
          registers.set(i.uniform(), i.destination() + 1, Value::word(found.offset + 4));
      }
      if (operand.is(Kind::word)) facts->reads.push_back({operand.offset, operand.offset + sizeof(uint32_t)});
    }
    if (i.leaves() && i.always()) registers.forget();
  }

  void tidy_all() {
    for (std::vector<Bytes>* ranges :
         {&facts->reads, &facts->follows, &facts->follows_perhaps, &facts->writes, &numbers})
      tidy(ranges);
  }
  // An array goes on to the next one, or to the end of its parameter.
  size_t end_of(const Array& array) const {
    size_t end = 0;
    for (const Parameter& p : facts->parameters)
      if (array.begin >= p.offset && array.begin < p.offset + p.size) end = p.offset + p.size;
    for (const Array& other : facts->arrays)
      for (const size_t begin : {other.begin, other.table})
        if (begin >= array.begin + array.stride) end = std::min(end, begin);
    return end;
  }
  void finish() {
    tidy_all();
    of_numbers.resize(facts->arrays.size());
    subtract(&facts->reads, numbers);
    subtract(&facts->follows, numbers);
    subtract(&facts->follows_perhaps, numbers);
    subtract(&facts->writes, numbers);
    std::vector<Array> left;
    for (size_t i = 0; i < facts->arrays.size(); ++i) {
      Array array = facts->arrays[i];
      array.end = end_of(array);
      if (!of_numbers[i] && array.end >= array.begin + 8) left.push_back(array);
    }
    facts->arrays = std::move(left);
  }
};

}  // namespace

// A size that is multiplied by, or a shift, is left out of what may be an address. PyTorch leaves such fields of its
// structs unset when a tensor has fewer dimensions, and what happens to be there looks like a pointer often enough. No
// such field is read before the count of dimensions was.
void read_machine_code(View code, unsigned architecture, Bytes bank, View numbers, KernelFacts* out) {
  Reader reader{bank, numbers, architecture, out, {}, {}};
  for (size_t at = 0; at + 16 <= code.size; at += 16) {
    Instruction i{0, 0, architecture};
    std::memcpy(&i.low, code.data + at, 8);
    std::memcpy(&i.high, code.data + at + 8, 8);
    reader.read(i);
    // Long code reads the same words again and again.
    if (std::max({out->reads.size(), out->follows.size(), out->follows_perhaps.size(), out->writes.size(),
                  reader.numbers.size()}) > kMostRanges)
      reader.tidy_all();
  }
  reader.finish();
}

}  // namespace devtrace::device

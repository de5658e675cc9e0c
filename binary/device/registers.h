// What the registers hold while machine code is read: parameters, and numbers that are made of the block's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "binary/device/instruction.h"

namespace devtrace::device {

// What a number counts: the block in one dimension of the grid, or what stands under the block's number in a table.
struct Counted {
  int8_t dimension = -1;    // of the grid; -1: nothing, the number is always the same
  uint8_t table_width = 0;  // bytes of each; 0: no table
  uint32_t table = 0;       // offset in the parameter block
  bool operator==(const Counted&) const = default;
};

struct Value {
  enum class Kind : uint8_t {
    unknown,
    either,     // an address or a number, from memory or two parameters
    word,       // the parameter bytes at `offset`
    somewhere,  // some word of the parameters from `offset` on
    entry,      // one of the array number `offset`
    number,     // offset + scale * what `counted` counts
  };
  Kind kind = Kind::unknown;
  uint32_t offset = 0, scale = 0;
  Counted counted;

  static Value of(Kind kind, size_t offset) { return {kind, static_cast<uint32_t>(offset), 0, {}}; }
  static Value word(size_t offset) { return of(Kind::word, offset); }
  static Value number(uint32_t value) { return of(Kind::number, value); }
  static Value block(int dimension) { return {Kind::number, 0, 1, {static_cast<int8_t>(dimension), 0, 0}}; }
  bool is(Kind k) const { return kind == k; }
  bool is_number(uint32_t value) const { return is_fixed() && offset == value; }
  bool is_fixed() const { return is(Kind::number) && counted.dimension < 0; }
  bool may_be_address() const { return !is(Kind::unknown) && !is(Kind::number); }
};

// Of two words added one is an address and the other a number, but which?
inline Value sum(const Value& one, const Value& other) {
  if (one.may_be_address() && other.may_be_address()) return Value::of(Value::Kind::either, 0);
  if (one.may_be_address()) return one;
  if (other.may_be_address()) return other;
  if (!one.is(Value::Kind::number) || !other.is(Value::Kind::number)) return {};
  if (!one.is_fixed() && !other.is_fixed() && one.counted != other.counted) return {};
  return {Value::Kind::number, one.offset + other.offset, one.scale + other.scale,
          one.is_fixed() ? other.counted : one.counted};
}

inline Value product(const Value& one, const Value& other) {
  if (one.is_number(1)) return other;
  if (other.is_number(1)) return one;
  if (one.is_number(0) || other.is_number(0)) return Value::number(0);
  const Value& factor = one.is_fixed() ? one : other;
  const Value& counts = one.is_fixed() ? other : one;
  if (!factor.is_fixed() || !counts.is(Value::Kind::number)) return {};
  return {Value::Kind::number, counts.offset * factor.offset, counts.scale * factor.offset, counts.counted};
}

class Registers {
 public:
  explicit Registers(unsigned architecture) : uniform_zero_(architecture >= 100 ? kZero : kUniformZero) {}
  // All of them. Long code does so often.
  void forget() { ++age_; }
  Value get(bool uniform, unsigned r) const {
    if (uniform) r &= uniform_zero_;
    if (r == (uniform ? uniform_zero_ : kZero)) return Value::number(0);
    const Register& found = all_[uniform][r];
    return found.age == age_ ? found.value : Value();
  }
  void set(bool uniform, unsigned r, const Value& value) {
    if (uniform) r &= uniform_zero_;
    if (r < kRegisters) all_[uniform][r] = {value, age_};
  }

 private:
  struct Register {
    Value value;
    uint32_t age = 0;
  };
  static constexpr unsigned kUniformZero = 63;  // before Blackwell
  static constexpr unsigned kRegisters = 256;
  unsigned uniform_zero_;
  uint32_t age_ = 1;
  Register all_[2][kRegisters];
};

}  // namespace devtrace::device

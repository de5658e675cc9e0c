// Fundamental types and state spaces of PTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace devtrace::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f64,
  tf32,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  s4,  // these three have no bytes of their own: parts of a register
  u4,
  b1,
  f32x2,
  u16x2,
  s16x2,
  texref,
  samplerref,
  surfref,
};

struct TypeFacts {
  std::string_view name;  // without its dot
  Type type;
  uint8_t bytes;
  char kind;  // b: bits, u, s: integers, f: floating point, h: pairs of two, p: a predicate, o: opaque
};

// Null: no such type. `name`: with or without its dot.
const TypeFacts* find_type(std::string_view name);
const TypeFacts& facts(Type type);
inline size_t bytes_of(Type type) {
  return facts(type).bytes;
}

enum class Space : uint8_t { none, reg, constant, global, local, param, shared };

// `none`: no such space. `name`: with its dot; "::cta" and the like may follow.
Space find_space(std::string_view name);

}  // namespace devtrace::ptx

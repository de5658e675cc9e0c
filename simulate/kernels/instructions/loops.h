// Loops over the lanes of an instruction.
#pragma once

#include <cstdint>

#include "binary/ptx/types.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

// d = f(a), d = f(a, b), d = f(a, b, c), for each lane. The arrays are the same or apart: nothing hinders vectors.
template <class D, class A, class F>
inline void map1(Machine& m, const Step& s, F f) {
  D* const d = m.at<D>(s.d);
  const A* const a = m.at<A>(s.a);
  for (const Run run : *m.lanes)
#pragma GCC ivdep
    for (uint32_t l = run.begin; l < run.end; ++l) d[l] = f(a[l]);
}
template <class D, class A, class B, class F>
inline void map2(Machine& m, const Step& s, F f) {
  D* const d = m.at<D>(s.d);
  const A* const a = m.at<A>(s.a);
  const B* const b = m.at<B>(s.b);
  for (const Run run : *m.lanes)
#pragma GCC ivdep
    for (uint32_t l = run.begin; l < run.end; ++l) d[l] = f(a[l], b[l]);
}
template <class D, class A, class B, class C, class F>
inline void map3(Machine& m, const Step& s, F f) {
  D* const d = m.at<D>(s.d);
  const A* const a = m.at<A>(s.a);
  const B* const b = m.at<B>(s.b);
  const C* const c = m.at<C>(s.c);
  for (const Run run : *m.lanes)
#pragma GCC ivdep
    for (uint32_t l = run.begin; l < run.end; ++l) d[l] = f(a[l], b[l], c[l]);
}

// A step of a function object without state.
template <class T, class F>
void unary(Machine& m, const Step& s) {
  map1<T, T>(m, s, [](T a) { return static_cast<T>(F()(a)); });
}
template <class T, class F>
void binary(Machine& m, const Step& s) {
  map2<T, T, T>(m, s, [](T a, T b) { return static_cast<T>(F()(a, b)); });
}
template <class T, class F>
void ternary(Machine& m, const Step& s) {
  map3<T, T, T, T>(m, s, [](T a, T b, T c) { return static_cast<T>(F()(a, b, c)); });
}

// f with a value of the C++ type of an integer or bit type; null: it is none.
template <class F>
Handler by_integer(ptx::Type type, F f) {
  using ptx::Type;
  switch (type) {
    case Type::u8:
    case Type::b8:
      return f(uint8_t());
    case Type::s8:
      return f(int8_t());
    case Type::u16:
    case Type::b16:
      return f(uint16_t());
    case Type::s16:
      return f(int16_t());
    case Type::u32:
    case Type::b32:
      return f(uint32_t());
    case Type::s32:
      return f(int32_t());
    case Type::u64:
    case Type::b64:
      return f(uint64_t());
    case Type::s64:
      return f(int64_t());
    default:
      return nullptr;
  }
}
// The same by size alone.
template <class F>
Handler by_bits(size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    case 8:
      return f(uint64_t());
    default:
      return nullptr;
  }
}

}  // namespace devtrace::simulate::kernels

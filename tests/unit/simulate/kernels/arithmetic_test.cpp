// Each instruction for many threads, against what the same means in C++.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>

#include "tests/unit/simulate/kernels/kernel.h"

namespace {

using namespace devtrace::simulate::kernels::test;

constexpr uint32_t kWords[] = {0,      1,          2,          3,          7,          31,        32,
                               33,     0x7f,       0x80,       0xff,       0x1234,     0x7fff,    0x8000,
                               0xffff, 0x12345678, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
constexpr uint64_t kLongs[] = {0,
                               1,
                               5,
                               63,
                               64,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               0x123456789abcdef0,
                               0x7fffffffffffffff,
                               0x8000000000000000,
                               0xffffffffffffffff};
constexpr float kFloats[] = {0.0f, -0.0f, 1.0f, -1.5f, 2.75f, 1e-3f, 3.4e38f, 1e-40f, -7e20f, INFINITY, -INFINITY, NAN};

// All threes of values, as far as a block has threads.
template <class T, size_t N>
std::vector<T> threes(const T (&values)[N]) {
  std::vector<T> all;
  for (size_t i = 0; i < N; ++i)
    for (size_t j = 0; j < N; ++j)
      if (all.size() < 3 * 1024) all.insert(all.end(), {values[i], values[j], values[(i * 7 + j * 3) % N]});
  return all;
}

struct Integer32 {
  const char* ptx;
  std::function<uint32_t(uint32_t, uint32_t, uint32_t)> expected;
};
int32_t s(uint32_t x) {
  return static_cast<int32_t>(x);
}
const Integer32 kIntegers[] = {
    {"add.s32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return a + b; }},
    {"sub.u32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return a - b; }},
    {"mul.lo.s32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return a * b; }},
    {"mul.hi.u32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }},
    {"mul.hi.s32 %r4, %r1, %r2;",
     [](auto a, auto b, auto) { return static_cast<uint32_t>(int64_t{s(a)} * s(b) >> 32); }},
    {"mad.lo.u32 %r4, %r1, %r2, %r3;", [](auto a, auto b, auto c) { return a * b + c; }},
    {"add.sat.s32 %r4, %r1, %r2;",
     [](auto a, auto b, auto) {
       const int64_t sum = int64_t{s(a)} + s(b);
       return static_cast<uint32_t>(sum > INT32_MAX   ? INT32_MAX
                                    : sum < INT32_MIN ? INT32_MIN
                                                      : static_cast<int32_t>(sum));
     }},
    {"min.s32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return s(a) < s(b) ? a : b; }},
    {"max.u32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return a > b ? a : b; }},
    {"abs.s32 %r4, %r1;", [](auto a, auto, auto) { return s(a) < 0 ? 0 - a : a; }},
    {"neg.s32 %r4, %r1;", [](auto a, auto, auto) { return 0 - a; }},
    {"and.b32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return a & b; }},
    {"xor.b32 %r4, %r1, 0xF0;", [](auto a, auto, auto) { return a ^ 0xf0; }},
    {"not.b32 %r4, %r1;", [](auto a, auto, auto) { return ~a; }},
    {"cnot.b32 %r4, %r1;", [](auto a, auto, auto) { return a == 0 ? 1u : 0u; }},
    {"shl.b32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return b > 31 ? 0 : a << b; }},
    {"shr.u32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return b > 31 ? 0 : a >> b; }},
    {"shr.s32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return static_cast<uint32_t>(s(a) >> (b > 31 ? 31 : b)); }},
    {"shf.l.wrap.b32 %r4, %r1, %r2, %r3;",
     [](auto a, auto b, auto c) { return static_cast<uint32_t>((uint64_t{b} << 32 | a) << (c & 31) >> 32); }},
    {"shf.r.clamp.b32 %r4, %r1, %r2, %r3;",
     [](auto a, auto b, auto c) { return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> (c > 32 ? 32 : c)); }},
    {"popc.b32 %r4, %r1;", [](auto a, auto, auto) { return static_cast<uint32_t>(std::popcount(a)); }},
    {"clz.b32 %r4, %r1;", [](auto a, auto, auto) { return static_cast<uint32_t>(std::countl_zero(a)); }},
    {"brev.b32 %r4, %r1;",
     [](auto a, auto, auto) {
       uint32_t r = 0;
       for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
       return r;
     }},
    {"bfind.u32 %r4, %r1;",
     [](auto a, auto, auto) { return a ? 31 - static_cast<uint32_t>(std::countl_zero(a)) : ~0u; }},
    {"bfe.u32 %r4, %r1, 4, 8;", [](auto a, auto, auto) { return a >> 4 & 0xff; }},
    {"bfe.s32 %r4, %r1, 28, 8;", [](auto a, auto, auto) { return static_cast<uint32_t>(s(a) >> 28); }},
    {"bfi.b32 %r4, %r1, %r2, 8, 4;", [](auto a, auto b, auto) { return (b & ~0xf00u) | (a & 0xf) << 8; }},
    {"prmt.b32 %r4, %r1, %r2, 0x7610;", [](auto a, auto b, auto) { return (a & 0xffff) | (b & 0xffff0000); }},
    {"lop3.b32 %r4, %r1, %r2, %r3, 0x96;", [](auto a, auto b, auto c) { return a ^ b ^ c; }},
    {"lop3.b32 %r4, %r1, %r2, %r3, 0xE8;", [](auto a, auto b, auto c) { return (a & b) | (a & c) | (b & c); }},
    {"sad.u32 %r4, %r1, %r2, %r3;", [](auto a, auto b, auto c) { return c + (a > b ? a - b : b - a); }},
    {"mul24.lo.u32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return (a & 0xffffff) * (b & 0xffffff); }},
    {"dp4a.u32.u32 %r4, %r1, %r2, %r3;",
     [](auto a, auto b, auto c) {
       for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
       return c;
     }},
    {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", [](auto a, auto b, auto) { return uint32_t{s(a) < s(b)}; }},
    {"setp.hi.u32 %p1, %r1, %r2; selp.b32 %r4, %r3, 0, %p1;", [](auto a, auto b, auto c) { return a > b ? c : 0; }},
    {"setp.ge.and.u32 %p1|%p2, %r1, %r2, 1; selp.b32 %r4, 1, 2, %p2;",
     [](auto a, auto b, auto) { return a >= b ? 2u : 1u; }},
    {"set.eq.u32.u32 %r4, %r1, %r2;", [](auto a, auto b, auto) { return a == b ? ~0u : 0u; }},
    {"slct.b32.s32 %r4, %r1, %r2, %r3;", [](auto a, auto b, auto c) { return s(c) >= 0 ? a : b; }},
    {"add.cc.u32 %r5, %r1, %r2; addc.u32 %r4, %r3, 0;", [](auto a, auto b, auto c) { return c + (a + b < a); }},
    {"sub.cc.u32 %r5, %r1, %r2; subc.u32 %r4, %r3, 0;", [](auto a, auto b, auto c) { return c - (a < b); }},
    {"cvt.s8.s32 %r4, %r1;", [](auto a, auto, auto) { return static_cast<uint32_t>(static_cast<int8_t>(a)); }},
    {"cvt.sat.u8.s32 %r4, %r1;",
     [](auto a, auto, auto) {
       return static_cast<uint32_t>(s(a) < 0 ? 0 : s(a) > 255 ? 255 : s(a));
     }},
    {"cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r4, %h1;",
     [](auto a, auto, auto) { return static_cast<uint32_t>(static_cast<int16_t>(a)); }},
    {"setp.ne.u32 %p1, %r2, 0; @%p1 div.u32 %r4, %r1, %r2; @!%p1 mov.b32 %r4, 9;",
     [](auto a, auto b, auto) { return b ? a / b : 9; }},
    {"setp.ne.u32 %p1, %r2, 0; mov.b32 %r4, 9; @%p1 rem.u32 %r4, %r1, %r2;",
     [](auto a, auto b, auto) { return b ? a % b : 9; }},
    {"mov.b64 %rd5, {%r1, %r2}; mov.b64 {_, %r4}, %rd5;", [](auto, auto b, auto) { return b; }},
    {"mov.b32 {%h1, %h2}, %r1; mov.b32 %r4, {%h2, %h1};", [](auto a, auto, auto) { return a << 16 | a >> 16; }},
};

TEST(KernelArithmetic, IntegersOf32Bits) {
  const std::vector<uint32_t> in = threes(kWords);
  for (const Integer32& one : kIntegers) {
    const auto out = each<uint32_t>(
        std::string("ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; ld.global.u32 %r3, [%rd1+8];\n") +
            one.ptx + "\nst.global.u32 [%rd2], %r4;",
        in, 3);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], one.expected(in[3 * i], in[3 * i + 1], in[3 * i + 2]))
          << one.ptx << std::hex << " " << in[3 * i] << " " << in[3 * i + 1] << " " << in[3 * i + 2];
  }
}

struct Integer64 {
  const char* ptx;
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> expected;
};
int64_t l(uint64_t x) {
  return static_cast<int64_t>(x);
}
const Integer64 kLongIntegers[] = {
    {"add.s64 %rd6, %rd3, %rd4;", [](auto a, auto b, auto) { return a + b; }},
    {"mul.lo.u64 %rd6, %rd3, %rd4;", [](auto a, auto b, auto) { return a * b; }},
    {"mul.hi.u64 %rd6, %rd3, %rd4;",
     [](auto a, auto b, auto) { return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64); }},
    {"mad.lo.s64 %rd6, %rd3, %rd4, %rd5;", [](auto a, auto b, auto c) { return a * b + c; }},
    {"min.s64 %rd6, %rd3, %rd4;", [](auto a, auto b, auto) { return l(a) < l(b) ? a : b; }},
    {"shr.s64 %rd6, %rd3, 7;", [](auto a, auto, auto) { return static_cast<uint64_t>(l(a) >> 7); }},
    {"cvt.u32.u64 %r1, %rd3; shl.b64 %rd6, %rd4, %r1;",
     [](auto a, auto b, auto) { return static_cast<uint32_t>(a) > 63 ? 0 : b << static_cast<uint32_t>(a); }},
    {"popc.b64 %r1, %rd3; cvt.u64.u32 %rd6, %r1;",
     [](auto a, auto, auto) { return static_cast<uint64_t>(std::popcount(a)); }},
    {"cvt.u32.u64 %r1, %rd3; cvt.u32.u64 %r2, %rd4; mul.wide.u32 %rd6, %r1, %r2;",
     [](auto a, auto b, auto) { return (a & 0xffffffff) * (b & 0xffffffff); }},
    {"cvt.u32.u64 %r1, %rd3; cvt.u32.u64 %r2, %rd4; mad.wide.s32 %rd6, %r1, %r2, %rd5;",
     [](auto a, auto b, auto c) {
       return static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b)) + c;
     }},
    {"setp.gt.u64 %p1, %rd3, %rd4; selp.b64 %rd6, %rd5, 0, %p1;", [](auto a, auto b, auto c) { return a > b ? c : 0; }},
};

TEST(KernelArithmetic, IntegersOf64Bits) {
  const std::vector<uint64_t> in = threes(kLongs);
  for (const Integer64& one : kLongIntegers) {
    const auto out = each<uint64_t>(
        std::string("ld.global.u64 %rd3, [%rd1]; ld.global.u64 %rd4, [%rd1+8]; ld.global.u64 %rd5, [%rd1+16];\n") +
            one.ptx + "\nst.global.u64 [%rd2], %rd6;",
        in, 3);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], one.expected(in[3 * i], in[3 * i + 1], in[3 * i + 2])) << one.ptx << " " << i;
  }
}

struct Real {
  const char* ptx;
  std::function<float(float, float, float)> expected;
};
float flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
const Real kReals[] = {
    {"add.f32 %f4, %f1, %f2;", [](auto a, auto b, auto) { return a + b; }},
    {"mul.ftz.f32 %f4, %f1, %f2;", [](auto a, auto b, auto) { return flush(flush(a) * flush(b)); }},
    {"fma.rn.f32 %f4, %f1, %f2, %f3;", [](auto a, auto b, auto c) { return std::fma(a, b, c); }},
    {"fma.rn.sat.f32 %f4, %f1, %f2, %f3;",
     [](auto a, auto b, auto c) {
       const float r = std::fma(a, b, c);
       return r > 0 ? std::fmin(r, 1.0f) : 0;
     }},
    {"div.rn.f32 %f4, %f1, %f2;", [](auto a, auto b, auto) { return a / b; }},
    {"sqrt.rn.f32 %f4, %f1;", [](auto a, auto, auto) { return std::sqrt(a); }},
    {"rcp.rn.f32 %f4, %f1;", [](auto a, auto, auto) { return 1 / a; }},
    {"min.f32 %f4, %f1, %f2;",
     [](auto a, auto b, auto) {
       return std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b;
     }},
    {"max.NaN.f32 %f4, %f1, %f2;",
     [](auto a, auto b, auto) {
       return std::isnan(a) || std::isnan(b) ? NAN : a > b || (a == b && !std::signbit(a)) ? a : b;
     }},
    {"abs.f32 %f4, %f1;", [](auto a, auto, auto) { return std::fabs(a); }},
    {"neg.f32 %f4, %f1;", [](auto a, auto, auto) { return -a; }},
    {"copysign.f32 %f4, %f1, %f2;", [](auto a, auto b, auto) { return std::copysign(b, a); }},
    {"ex2.approx.f32 %f4, %f1;", [](auto a, auto, auto) { return std::exp2(a); }},
    {"cvt.f64.f32 %fd1, %f1; add.f64 %fd2, %fd1, 0d3FF0000000000000; cvt.rn.f32.f64 %f4, %fd2;",
     [](auto a, auto, auto) { return static_cast<float>(double{a} + 1); }},
    {"cvt.rzi.s32.f32 %r1, %f1; cvt.rn.f32.s32 %f4, %r1;",
     [](auto a, auto, auto) {
       return std::isnan(a)         ? 0
              : a >= 2147483648.0f  ? 2147483648.0f
              : a <= -2147483648.0f ? -2147483648.0f
                                    : std::trunc(a) + 0.0f;
     }},
    {"cvt.rmi.f32.f32 %f4, %f1;", [](auto a, auto, auto) { return std::floor(a); }},
    {"setp.ltu.f32 %p1, %f1, %f2; selp.f32 %f4, 0f3F800000, 0f00000000, %p1;",
     [](auto a, auto b, auto) { return !(a >= b) ? 1.0f : 0; }},
    {"testp.notanumber.f32 %p1, %f1; selp.f32 %f4, 0f3F800000, %f2, %p1;",
     [](auto a, auto b, auto) { return std::isnan(a) ? 1 : b; }},
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(KernelArithmetic, FloatingPoint) {
  const std::vector<float> in = threes(kFloats);
  for (const Real& one : kReals) {
    const auto out = each<float>(
        std::string("ld.global.v2.f32 {%f1, %f2}, [%rd1]; ld.global.f32 %f3, [%rd1+8];\n") + one.ptx +
            "\nst.global.f32 [%rd2], %f4;",
        [&] {
          std::vector<float> four;
          for (size_t i = 0; i < in.size(); i += 3) four.insert(four.end(), {in[i], in[i + 1], in[i + 2], 0});
          return four;
        }(),
        4);
    for (size_t i = 0; i < out.size(); ++i) {
      const float expected = one.expected(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
      ASSERT_TRUE(same(out[i], expected))
          << one.ptx << " " << in[3 * i] << " " << in[3 * i + 1] << ": " << out[i] << ", not " << expected;
    }
  }
}

TEST(KernelArithmetic, RoundingsAreTheInstructions) {
  const auto out = each<float>(
      "ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4];\nadd.rz.f32 %f3, %f1, %f2; st.global.f32 [%rd2], %f3;\n"
      "add.rp.f32 %f3, %f1, %f2; st.global.f32 [%rd2+4], %f3;\nadd.rm.f32 %f3, %f1, %f2; st.global.f32 [%rd2+8], "
      "%f3;\nadd.f32 %f3, %f1, %f2; st.global.f32 [%rd2+12], %f3;",
      std::vector<float>{1.0f, 1e-10f, -1.0f, -1e-10f}, 2, 4);
  const float up = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(out, (std::vector<float>{1, up, 1, 1, -1, -1, -up, -1}));
}

TEST(KernelArithmetic, SmallFloatingPoint) {
  // 1.5 and 2.25 as halves and as bfloats; what rounds; 8 bits.
  const auto out = each<uint32_t>(
      "ld.global.b32 %r1, [%rd1]; mov.b32 {%h1, %h2}, %r1;\nfma.rn.f16 %h3, %h1, %h2, %h1; cvt.u32.u16 %r2, %h3; "
      "st.global.b32 [%rd2], %r2;\n"
      "add.f16x2 %r3, %r1, %r1; st.global.b32 [%rd2+4], %r3;\nmov.f32 %f1, 0f3FC00000; mov.f32 %f2, 0f40100000;\n"
      "cvt.rn.f16x2.f32 %r4, %f2, %f1; st.global.b32 [%rd2+8], %r4;\ncvt.rn.bf16x2.f32 %r5, %f2, %f1; st.global.b32 "
      "[%rd2+12], %r5;\n"
      "cvt.rn.satfinite.e4m3x2.f32 %h4, %f2, %f1; cvt.u32.u16 %r6, %h4; st.global.b32 [%rd2+16], %r6;\n"
      "max.bf16x2 %r7, %r5, 0; st.global.b32 [%rd2+20], %r7;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 %h5, %r4; cvt.u32.u16 %r8, %h5; cvt.rn.satfinite.relu.e5m2x2.f16x2 %h6, "
      "0x7bffc000; "
      "cvt.u32.u16 %r9, %h6; st.global.v2.b32 [%rd2+24], {%r8, %r9};",
      std::vector<uint32_t>{0x40803e00}, 1, 8);
  EXPECT_EQ(out,
            (std::vector<uint32_t>{0x44e0, 0x44804200, 0x40803e00, 0x40103fc0, 0x413c, 0x40103fc0, 0x413c, 0x7b00}));
}

// The manual's: parts of a and b, what is saturated, a second operation with c, or c's other parts. a = 0x80ff0102, b =
// 0x7f010305, c = 10.
TEST(KernelArithmetic, VideoInstructions) {
  struct Case {
    const char* ptx;
    uint32_t expected;
  };
  const Case cases[] = {
      {"vadd.u32.u32.u32 %r5, %r1.b0, %r2.b1;", 5},
      {"vadd.s32.s32.s32 %r5, %r1.b2, %r2.b2;", 0},
      {"vadd.u32.u32.u32 %r5, %r1.h1, %r2.h0;", 0x80ff + 0x0305},
      {"vsub.s32.u32.u32 %r5, %r1.b0, %r2.b0;", static_cast<uint32_t>(-3)},
      {"vsub.u32.u32.u32.sat %r5, %r1.b0, %r2.b0;", 0},
      {"vadd.s32.s32.s32.sat %r5.b3, %r1.b3, %r1.b3, %r3;", 0x8000000a},
      {"vabsdiff.u32.u32.u32.add %r5, %r1.b0, %r2.b0, %r3;", 13},
      {"vmin.s32.s32.s32.max %r5, %r1, %r2, %r3;", 10},
      {"vmax.u32.u32.u32 %r5.h1, %r1.b0, %r2.b0, %r3;", 0x5000a},
      {"vshl.u32.u32.u32.clamp %r5, %r1.b0, %r2.b0;", 64},
      {"vshr.s32.s32.u32.wrap %r5, %r1, %r2.b0;", static_cast<uint32_t>(static_cast<int32_t>(0x80ff0102) >> 5)},
      {"vset.u32.u32.lt %r5, %r1.b0, %r2.b0;", 1},
      {"vset.s32.s32.gt.add %r5, %r1, %r2, %r3;", 10},
      {"vmad.u32.u32.u32 %r5, %r1.b0, %r2.b0, %r3;", 20},
      {"vmad.s32.s32.s32 %r5, -%r1.b0, %r2.b0, %r3;", 0},
      {"vmad.s32.s32.s32.shr7 %r5, %r1.h1, %r2.b0, -%r3;", static_cast<uint32_t>((-0x7f01 * 5 - 10) >> 7)},
      {"vmad.u32.u32.u32.po %r5, %r1.b0, %r2.b0, %r3;", 21},
      {"vadd4.u32.u32.u32 %r5, %r1, %r2, %r3;", 0xff000407},
      {"vadd4.u32.u32.u32.sat %r5, %r1, %r2, %r3;", 0xffff0407},
      {"vsub4.s32.s32.s32.sat %r5, %r1, %r2, %r3;", 0x80fefefd},
      {"vabsdiff4.u32.u32.u32.add %r5, %r1, %r2, %r3;", 10 + 1 + 254 + 2 + 3},
      {"vavrg4.u32.u32.u32 %r5.b10, %r1, %r2, %r3;", 0x0204},
      {"vmin4.s32.s32.s32 %r5.b3, %r1, %r2, %r3;", 0x8000000a},
      {"vmax4.u32.u32.u32 %r5, %r1.b0123, %r2.b7654, %r3;", 0x7f01ff80},
      {"vset4.u32.u32.ge %r5, %r1, %r2, %r3;", 0x01010000},
      {"vadd2.u32.u32.u32 %r5, %r1, %r2, %r3;", 0x00000407},
      {"vadd2.s32.s32.s32.sat %r5.h1, %r1.h11, %r1.h11, %r3;", 0x8000000a},
      {"vsub2.u32.u32.u32.add %r5, %r1, %r1.h10, %r3;", 10},
      {"vavrg2.s32.s32.s32 %r5, %r1, %r2.h32, %r3;", 0x00000204},
      {"vset2.s32.s32.lt.add %r5, %r1, %r2, %r3;", 12},
  };
  for (const Case& one : cases) {
    const auto out = each<uint32_t>("ld.global.v2.b32 {%r1, %r2}, [%rd1]; mov.u32 %r3, 10;\n" + std::string(one.ptx) +
                                        " st.global.b32 [%rd2], %r5;",
                                    std::vector<uint32_t>{0x80ff0102, 0x7f010305}, 2);
    EXPECT_EQ(out[0], one.expected) << one.ptx << std::hex << " " << out[0];
  }
}

// As the driver's compiler has it: rounded once, unless a rounding is asked for, or the product is another's by then.
TEST(KernelArithmetic, ASumTakesAProductIntoIt) {
  const float x = 1.1f, y = 1.3f, z = -1.43f;
  const auto out = each<float>(
      ".reg .f32 %fa, %fb, %fc, %fe;\nld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; ld.global.f32 %f3, "
      "[%rd1+8]; ld.global.f32 %f0, [%rd1+12];\n"
      "mul.f32 %f4, %f1, %f2; add.f32 %f5, %f4, %f3; st.global.f32 [%rd2], %f5;\n"
      "sub.f32 %f6, %f3, %f4; st.global.f32 [%rd2+4], %f6; sub.f32 %f7, %f4, %f3; st.global.f32 [%rd2+8], %f7;\n"
      "mul.rn.f32 %f8, %f1, %f2; add.f32 %f9, %f8, %f3; st.global.f32 [%rd2+12], %f9;\n"
      "add.rn.f32 %fa, %f4, %f3; st.global.f32 [%rd2+16], %fa;\n"
      "setp.eq.u32 %p1, %r0, 7; @%p1 bra ON;\nON: add.f32 %fb, %f4, %f3; st.global.f32 [%rd2+20], %fb;\n"
      "mul.f32 %fc, %f0, %f2; mov.f32 %f0, %f2; add.f32 %fe, %fc, %f3; st.global.f32 [%rd2+24], %fe;",
      std::vector<float>{x, y, z, x}, 4, 7, ".global .b32 none;\n");
  const float once = std::fma(x, y, z), twice = x * y + z;
  ASSERT_NE(once, twice);
  EXPECT_EQ(out, (std::vector<float>{once, std::fma(-x, y, z), std::fma(x, y, -z), twice, twice, twice, twice}));
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
double seconds_of(const std::string& instruction) {
  std::string body = "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; mov.u32 %r1, 0;\nAGAIN: ";
  for (int i = 0; i < 32; ++i) body += instruction;
  body += "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100; @%p1 bra AGAIN; ret;";
  std::vector<uint32_t> none(1);
  Blocks memory;
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  EXPECT_EQ(launch(entry(body), memory, {memory.add(none)}, 1024).kind, devtrace::simulate::kernels::FaultKind::none);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

// It was a call of the C library's for each thread: eight times a sum's time.
TEST(KernelArithmetic, AFusedProductIsTheProcessorsInstruction) {
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the processor has none";
  double sum = 1, fused = 1;
  for (int i = 0; i < 7; ++i) {
    sum = std::min(sum, seconds_of("add.f32 %f3, %f1, %f2; "));
    fused = std::min(fused, seconds_of("fma.rn.f32 %f3, %f1, %f2, %f2; "));
  }
  EXPECT_LT(fused, 3 * sum);
}
#endif

}  // namespace

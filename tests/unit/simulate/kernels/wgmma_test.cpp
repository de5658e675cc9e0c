// Products of a warpgroup, against sums of the host's: each layout of the matrices in shared memory, and in registers.
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/simulate/kernels/kernel.h"

namespace {

using namespace devtrace::simulate::kernels;
using namespace devtrace::simulate::kernels::test;

constexpr uint32_t kThreads = 128, kRows = 64;

int a_of(uint32_t row, uint32_t k) {
  return static_cast<int>((row * 7 + k * 3) % 11) - 5;
}
int b_of(uint32_t column, uint32_t k) {
  return static_cast<int>((column * 5 + k * 2) % 7) - 3;
}

uint16_t half(int value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

// How a matrix of so many rows lies in shared memory: where in bytes, and what the descriptor says of it.
struct Layout {
  const char* name;
  uint32_t depth;  // of the tile: several times that of an instruction
  bool transposed;
  uint64_t swizzle, leading, stride, step;  // of the descriptor, and how many bytes the next part of the depth lies off
  std::function<uint32_t(uint32_t row, uint32_t k)> at;
};

const Layout kLayouts[] = {
    {"plain", 16, false, 0, 128, 256, 0,
     [](uint32_t row, uint32_t k) { return row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2; }},
    {"32 bytes", 16, false, 3, 1, 256, 0,
     [](uint32_t row, uint32_t k) { return row * 32 + ((k / 8) ^ (row / 4 % 2)) * 16 + k % 8 * 2; }},
    {"64 bytes", 32, false, 2, 1, 512, 32,
     [](uint32_t row, uint32_t k) { return row * 64 + ((k / 8) ^ (row / 2 % 4)) * 16 + k % 8 * 2; }},
    {"128 bytes", 64, false, 1, 1, 1024, 32,
     [](uint32_t row, uint32_t k) { return row * 128 + ((k / 8) ^ (row % 8)) * 16 + k % 8 * 2; }},
    {"plain, transposed", 16, true, 0, 128, 256, 0,
     [](uint32_t row, uint32_t k) { return row / 8 * 256 + k / 8 * 128 + k % 8 * 16 + row % 8 * 2; }},
    {"128 bytes, transposed", 32, true, 1, 8192, 1024, 2048,
     [](uint32_t row, uint32_t k) {
       return row / 64 * 8192 + k * 128 + ((row % 64 / 8) ^ (k % 8)) * 16 + row % 8 * 2;
     }},
    {"32 bytes, transposed", 16, true, 3, 512, 256, 0,
     [](uint32_t row, uint32_t k) {
       return row / 16 * 512 + k * 32 + ((row % 16 / 8) ^ (k / 4 % 2)) * 16 + row % 8 * 2;
     }},
};

std::string registers(const char* prefix, uint32_t count) {
  std::string all;
  for (uint32_t i = 0; i < count; ++i) all += (i ? ", %" : "%") + std::string(prefix) + std::to_string(i);
  return "{" + all + "}";
}

uint64_t descriptor(const Layout& layout, uint64_t start) {
  return start >> 4 | layout.leading >> 4 << 16 | layout.stride >> 4 << 32 | layout.swizzle << 62;
}

// 128 threads copy `bytes` of `in` to shared memory, do `body`, and store their `count` registers %s.
std::string program(const std::string& body, uint32_t bytes, uint32_t count, const char* type = "f32") {
  std::string text =
      ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry kernel(.param .u64 in, .param .u64 "
      "out, .param .u64 other) {\n.shared .align 1024 .b8 tile[" +
      std::to_string(bytes) + "]; .reg ." + type + " %s<" + std::to_string(count) +
      ">; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n"
      "mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [other];\n"
      "mov.u32 %r1, tile; shl.b32 %r2, %r0, 2;\n"
      "MORE: cvt.u64.u32 %rd4, %r2; add.u64 %rd4, %rd1, %rd4; ld.global.u32 %r3, [%rd4]; add.u32 %r4, %r1, "
      "%r2; st.shared.u32 [%r4], %r3; add.u32 %r2, %r2, 512; setp.lt.u32 %p1, %r2, " +
      std::to_string(bytes) + "; @%p1 bra MORE; bar.sync 0;\n";
  for (uint32_t i = 0; i < count; ++i) text += "mov.b32 %s" + std::to_string(i) + ", 0;\n";
  text += "wgmma.fence.sync.aligned;\n" + body +
          "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nmad.wide.u32 %rd2, %r0, " +
          std::to_string(4 * count) + ", %rd2;\n";
  for (uint32_t i = 0; i < count; ++i)
    text += "st.global." + std::string(type) + " [%rd2+" + std::to_string(4 * i) + "], %s" + std::to_string(i) + ";\n";
  return text + "ret; }\n";
}

// PTX ISA, "WGMMA .m64nNk16 register fragment layout for accumulator matrix D".
uint32_t row_of(uint32_t thread, uint32_t i) {
  return 16 * (thread / 32) + thread % 32 / 4 + 8 * (i / 2 % 2);
}
uint32_t column_of(uint32_t thread, uint32_t i) {
  return 8 * (i / 4) + 2 * (thread % 4) + i % 2;
}

template <class T>
std::vector<T> run_program(const std::string& text, std::vector<uint8_t>& in, uint32_t count,
                           std::vector<uint32_t> other = {0}) {
  std::vector<T> out(kThreads * count);
  Blocks memory;
  const Result r = launch(text, memory, {memory.add(in), memory.add(out), memory.add(other)}, kThreads);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text << " " << r.instruction;
  return out;
}

int product(uint32_t row, uint32_t column, uint32_t depth) {
  int sum = 0;
  for (uint32_t k = 0; k < depth; ++k) sum += a_of(row, k) * b_of(column, k);
  return sum;
}

TEST(Wgmma, EachLayoutInSharedMemory) {
  constexpr uint32_t kColumns = 128, kOfB = 16384, kBytes = 49152;
  for (const Layout& layout : kLayouts) {
    std::vector<uint8_t> in(kBytes);
    const auto put = [&](uint32_t at, int value) {
      const uint16_t bits = half(value);
      std::memcpy(in.data() + at, &bits, 2);
    };
    for (uint32_t k = 0; k < layout.depth; ++k) {
      for (uint32_t row = 0; row < kRows; ++row) put(layout.at(row, k), a_of(row, k));
      for (uint32_t column = 0; column < kColumns; ++column) put(kOfB + layout.at(column, k), b_of(column, k));
    }
    const std::string transposed = layout.transposed ? "1, 1" : "0, 0";
    std::string body = "setp.eq.u32 %p2, %r0, %r0;\n";
    for (uint32_t k = 0; k < layout.depth; k += 16)
      body += "mov.b64 %rd5, " + std::to_string(descriptor(layout, k / 16 * layout.step)) + "; mov.b64 %rd6, " +
              std::to_string(descriptor(layout, kOfB + k / 16 * layout.step)) +
              ";\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " + registers("s", kColumns / 2) +
              ", %rd5, %rd6, %p2, 1, 1, " + transposed + ";\n";
    const auto out = run_program<float>(program(body, kBytes, kColumns / 2), in, kColumns / 2);
    for (uint32_t thread = 0; thread < kThreads; ++thread)
      for (uint32_t i = 0; i < kColumns / 2; ++i)
        ASSERT_EQ(out[thread * (kColumns / 2) + i],
                  static_cast<float>(product(row_of(thread, i), column_of(thread, i), layout.depth)))
            << layout.name << " " << thread << " " << i;
  }
}

// A in registers, as mma has it; the sums so far count, or do not; a product may be subtracted.
TEST(Wgmma, OfRegistersAndWithSums) {
  constexpr uint32_t kColumns = 8;
  const Layout& layout = kLayouts[0];
  std::vector<uint8_t> in(512);
  for (uint32_t column = 0; column < kColumns; ++column)
    for (uint32_t k = 0; k < 16; ++k) {
      const uint16_t bits = half(b_of(column, k));
      std::memcpy(in.data() + layout.at(column, k), &bits, 2);
    }
  std::vector<uint32_t> a;
  for (uint32_t thread = 0; thread < kThreads; ++thread)
    for (uint32_t r = 0; r < 4; ++r) {
      const uint32_t row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (r % 2), k = thread % 4 * 2 + 8 * (r / 2);
      a.push_back(half(a_of(row, k)) | uint32_t{half(a_of(row, k + 1))} << 16);
    }
  const std::string call =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " + registers("s", 4) + ", {%r5, %r6, %r7, %r8}, %rd6, ";
  const std::string body =
      "mad.wide.u32 %rd3, %r0, 16, %rd3; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd3];\n"
      "mov.f32 %s0, 0f42C80000; setp.eq.u32 %p2, %r0, %r0; mov.b64 %rd6, " +
      std::to_string(descriptor(layout, 0)) + ";\n" + call + "0, 1, 1, 0;\n" + call + "%p2, 1, 1, 0;\n" + call +
      "%p2, -1, 1, 0;\n" + call + "%p2, 1, 1, 0;\n";
  std::string text = program(body, 512, 4);
  // A predicate that is never set is false.
  text.replace(text.find("%rd6, 0,"), 8, "%rd6, %p0,");
  const auto out = run_program<float>(text, in, 4, a);
  for (uint32_t thread = 0; thread < kThreads; ++thread)
    for (uint32_t i = 0; i < 4; ++i)
      ASSERT_EQ(out[thread * 4 + i], static_cast<float>(2 * product(row_of(thread, i), column_of(thread, i), 16)))
          << thread << " " << i;
}

TEST(Wgmma, OfWholeNumbersOfEightBits) {
  constexpr uint32_t kColumns = 16, kOfB = 2048;
  const Layout layout = {
      "plain", 32,
      false,   0,
      128,     256,
      0,       [](uint32_t row, uint32_t k) {
                           return row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16; }};
  std::vector<uint8_t> in(4096);
  for (uint32_t k = 0; k < 32; ++k) {
    for (uint32_t row = 0; row < kRows; ++row) in[layout.at(row, k)] = static_cast<uint8_t>(a_of(row, k));
    for (uint32_t column = 0; column < kColumns; ++column)
      in[kOfB + layout.at(column, k)] = static_cast<uint8_t>(b_of(column, k) + 200);
  }
  const std::string body = "setp.ne.u32 %p2, %r0, %r0; mov.b64 %rd5, " + std::to_string(descriptor(layout, 0)) +
                           "; mov.b64 %rd6, " + std::to_string(descriptor(layout, kOfB)) +
                           ";\nwgmma.mma_async.sync.aligned.m64n16k32.s32.s8.u8 " + registers("s", 8) +
                           ", %rd5, %rd6, %p2;\n";
  const auto out = run_program<int32_t>(program(body, 4096, 8, "s32"), in, 8);
  for (uint32_t thread = 0; thread < kThreads; ++thread)
    for (uint32_t i = 0; i < 8; ++i) {
      int sum = 0;
      for (uint32_t k = 0; k < 32; ++k) sum += a_of(row_of(thread, i), k) * (b_of(column_of(thread, i), k) + 200);
      ASSERT_EQ(out[thread * 8 + i], sum) << thread << " " << i;
    }
}

}  // namespace

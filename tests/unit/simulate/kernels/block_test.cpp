// What threads do together, and what they are kept from: divergence, barriers, warps, calls, shared memory, faults.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>

#include "tests/unit/simulate/kernels/kernel.h"

namespace {

using namespace devtrace::simulate::kernels;
using namespace devtrace::simulate::kernels::test;

TEST(KernelBlock, ThreadsThatPartMeetAgain) {
  // Each loops as often as its number says; activemask behind it shows that all are there again.
  const auto out = each<uint32_t>(
      "mov.u32 %r1, 0; mov.u32 %r2, 0;\nAGAIN: setp.ge.u32 %p1, %r1, %r0; @%p1 bra DONE;\nadd.u32 %r2, %r2, %r1; "
      "add.u32 %r1, %r1, 1; bra AGAIN;\n"
      "DONE: activemask.b32 %r3; st.global.v2.b32 [%rd2], {%r2, %r3};",
      std::vector<uint32_t>(64), 1, 2);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[2 * i], i * (i - 1) / 2 * (i > 0));
    EXPECT_EQ(out[2 * i + 1], 0xffffffff);
  }
}

TEST(KernelBlock, BarriersAndSharedMemory) {
  std::vector<uint32_t> in(256), out(256);
  std::iota(in.begin(), in.end(), 1);
  Blocks memory;
  // A sum by halves, in dynamic shared memory.
  const Result r = launch(
      entry("mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\nmul.wide.u32 %rd3, %r0, 4; "
            "add.s64 %rd4, %rd1, %rd3;\n"
            "ld.global.u32 %r1, [%rd4]; mov.u32 %r2, memory; shl.b32 %r3, %r0, 2; add.u32 %r2, %r2, %r3; st.shared.u32 "
            "[%r2], %r1;\n"
            "mov.u32 %r4, 128;\nNEXT: bar.sync 0; setp.ge.u32 %p1, %r0, %r4; @%p1 bra SKIP;\nshl.b32 %r5, %r4, 2; "
            "add.u32 %r6, %r2, %r5;\n"
            "ld.shared.u32 %r7, [%r6]; ld.shared.u32 %r8, [%r2]; add.u32 %r8, %r8, %r7; st.shared.u32 [%r2], %r8;\n"
            "SKIP: shr.u32 %r4, %r4, 1; setp.ne.u32 %p2, %r4, 0; @%p2 bra NEXT;\nbar.sync 0; ld.shared.u32 %r9, "
            "[memory]; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9; ret;",
            ".extern .shared .align 16 .b8 memory[];"),
      memory, {memory.add(in), memory.add(out)}, 256, 1, 1024);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text;
  EXPECT_EQ(out, std::vector<uint32_t>(256, 256 * 257 / 2));
}

// Behind the static variables, at a multiple of what it asks for.
TEST(KernelBlock, DynamicSharedMemoryIsAligned) {
  std::vector<uint32_t> in(1), out(1);
  Blocks memory;
  const Result r = launch(entry(".shared .b32 before; mov.u32 %r1, 1; st.shared.u32 [before], %r1;\n"
                                "ld.param.u64 %rd2, [out]; mov.u32 %r2, memory; st.global.u32 [%rd2], %r2; ret;",
                                ".extern .shared .align 1024 .b8 memory[];"),
                          memory, {memory.add(in), memory.add(out)}, 1, 1, 1024);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text;
  EXPECT_EQ(out[0], 1024u);
}

TEST(KernelBlock, ABarrierThatCountsBytes) {
  const auto out = each<uint32_t>(
      ".shared .align 8 .b64 bar;\nmov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r1], 16; mbarrier.pending_count.b64 %r2, %rd3;\n"
      "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0; selp.b32 %r3, 1, 0, %p1;\n"
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n"
      "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; selp.b32 %r4, 1, 0, %p1;\n"
      "mbarrier.test_wait.shared.b64 %p2, [bar], %rd3; selp.b32 %r5, 1, 0, %p2;\n"
      "mbarrier.arrive.shared.b64 _, [bar]; mbarrier.inval.shared.b64 [bar];\n"
      "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0; selp.b32 %r6, 1, 0, %p1;\n"
      "st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5}; st.global.b32 [%rd2+16], %r6;",
      std::vector<uint32_t>(1), 1, 5);
  EXPECT_EQ(out, (std::vector<uint32_t>{1, 0, 1, 1, 0}));
}

TEST(KernelBlock, WarpsVoteShuffleAndMatch) {
  const auto out = each<uint32_t>(
      "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 1;\nvote.sync.ballot.b32 %r2, %p1, 0xffffffff; vote.sync.any.pred "
      "%p2, %p1, -1; selp.b32 %r3, 1, 0, %p2;\n"
      "shfl.sync.down.b32 %r4|%p3, %r0, 1, 31, -1; selp.b32 %r5, 1, 0, %p3;\nmatch.any.sync.b32 %r6, %r1, -1; "
      "redux.sync.add.u32 %r7, %r0, -1;\n"
      "st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5}; st.global.v2.b32 [%rd2+16], {%r6, %r7};",
      std::vector<uint32_t>(64), 1, 8);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[8 * i], 0xaaaaaaaa);
    EXPECT_EQ(out[8 * i + 1], 1u);
    EXPECT_EQ(out[8 * i + 2], i % 32 == 31 ? i : i + 1);
    EXPECT_EQ(out[8 * i + 3], i % 32 == 31 ? 0u : 1u);
    EXPECT_EQ(out[8 * i + 4], i % 2 ? 0xaaaaaaaa : 0x55555555);
    EXPECT_EQ(out[8 * i + 5], i < 32 ? 496u : 496u + 32 * 32);
  }
}

TEST(KernelBlock, FunctionsCallEachOtherAndThemselves) {
  const std::string before =
      ".func (.param .b32 back) sum(.param .b32 n) {\n.reg .pred %p<2>; .reg .b32 %r<5>;\nld.param.b32 %r1, [n]; "
      "mov.b32 %r2, 0;\n"
      "setp.eq.u32 %p1, %r1, 0; @%p1 bra END;\nadd.u32 %r3, %r1, -1;\n{ .param .b32 a; .param .b32 r; st.param.b32 "
      "[a], %r3; call.uni (r), sum, (a); ld.param.b32 %r2, [r]; }\n"
      "add.u32 %r2, %r2, %r1;\nEND: st.param.b32 [back], %r2; ret; }\n"
      ".func (.param .b32 back) ten(.param .b32 n) { st.param.b32 [back], 10; ret; }\n";
  const auto out = each<uint32_t>(
      "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; call.uni (r), sum, (a); ld.param.b32 %r1, [r]; }\n"
      "mov.u64 %rd3, sum; mov.u64 %rd4, ten; setp.lt.u32 %p1, %r0, 5; selp.b64 %rd3, %rd4, %rd3, %p1;\n"
      "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; form: .callprototype (.param .b32 _) _ (.param .b32 _); "
      "call (r), %rd3, (a), form; ld.param.b32 %r2, [r]; }\n"
      "st.global.v2.b32 [%rd2], {%r1, %r2};",
      std::vector<uint32_t>(40), 1, 2, before);
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(out[2 * i], i * (i + 1) / 2);
    EXPECT_EQ(out[2 * i + 1], i < 5 ? 10 : i * (i + 1) / 2);
  }
}

TEST(KernelBlock, EveryThreadHasMemoryOfItsOwn) {
  const auto out = each<uint32_t>(
      ".local .align 8 .b8 own[16]; .reg .b64 at;\nmov.u64 at, own; cvta.local.u64 at, at; st.u32 [at+4], %r0; "
      "ld.local.u32 %r1, [own+4]; st.global.u32 [%rd2], %r1;",
      std::vector<uint32_t>(40), 1);
  for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(out[i], i);
}

TEST(KernelBlock, AtomicsOfManyBlocks) {
  std::vector<uint32_t> in(1), out(4);
  Blocks memory;
  const Result r = launch(
      entry("ld.param.u64 %rd2, [out]; mov.u32 %r0, %tid.x;\nred.global.add.u32 [%rd2], 1; atom.global.max.u32 %r1, "
            "[%rd2+4], %r0;\n"
            "atom.global.inc.u32 %r2, [%rd2+8], 9; mov.f32 %f1, 0f3F000000; red.global.add.f32 [%rd2+12], %f1; ret;"),
      memory, {memory.add(in), memory.add(out)}, 100, 50, 0, 2);
  EXPECT_EQ(r.kind, FaultKind::none);
  EXPECT_EQ(out, (std::vector<uint32_t>{5000, 99, 0, 0x451c4000}));
}

// Threads of a warp that want the same lock, and blocks that wait for all others.
TEST(KernelBlock, WhoWaitsForOthersLetsThemGoOn) {
  std::vector<uint32_t> in(1), out(2);
  Blocks memory;
  const Result locks = launch(entry("ld.param.u64 %rd2, [out];\nLOCK: atom.global.cas.b32 %r1, [%rd2], 0, 1; "
                                    "setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;\n"
                                    "ld.volatile.global.u32 %r2, [%rd2+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 "
                                    "[%rd2+4], %r2; membar.gl; atom.global.exch.b32 %r1, [%rd2], 0; ret;"),
                              memory, {memory.add(in), memory.add(out)}, 64, 2);
  EXPECT_EQ(locks.kind, FaultKind::none) << locks.text;
  EXPECT_EQ(out, (std::vector<uint32_t>{0, 128}));
  std::vector<uint32_t> count(1);
  const Result grid =
      launch(entry("ld.param.u64 %rd2, [out]; mov.u32 %r0, %nctaid.x; atom.global.add.u32 %r1, [%rd2], 1;\nWAIT: "
                   "ld.acquire.gpu.global.u32 %r2, [%rd2]; setp.lt.u32 %p1, %r2, %r0; @%p1 bra WAIT; ret;"),
             memory, {memory.add(in), memory.add(count)}, 1, 40);
  EXPECT_EQ(grid.kind, FaultKind::none) << grid.text;
}

TEST(KernelBlock, AnEndlessKernelEnds) {
  std::vector<uint32_t> in(1);
  Blocks memory;
  const Result r = launch(entry("FOREVER: bra FOREVER;"), memory, {memory.add(in)}, 32, 1, 0, 1, 0.1);
  EXPECT_EQ(r.kind, FaultKind::time);
  const Result never = launch(entry("mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 1, 64; ret;"), memory,
                              {memory.add(in)}, 32);
  EXPECT_EQ(never.kind, FaultKind::none);  // all others have ended
  EXPECT_EQ(
      launch(entry("mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64; ret;"),
             memory, {memory.add(in)}, 32)
          .kind,
      FaultKind::time);
}

TEST(KernelBlock, EachAccessIsLookedAt) {
  std::vector<uint32_t> in(8), out(8);
  Blocks memory;
  const std::vector<uint64_t> at = {memory.add(in), memory.add(out)};
  const std::string head =
      ".loc 1 40 2\nmov.u32 %r0, %tid.x; ld.param.u64 %rd1, [in]; mad.wide.u32 %rd1, %r0, 4, %rd1;\n";
  const std::string ptx = entry(head + ".loc 1 41 5\nst.global.u32 [%rd1], %r0; ret;") + ".file 1 \"k.cu\"\n";
  EXPECT_EQ(launch(ptx, memory, at, 8).kind, FaultKind::none);
  const Result r = launch(ptx, memory, at, 9);
  EXPECT_EQ(r.kind, FaultKind::address);
  EXPECT_EQ(r.address, at[0] + 32);
  EXPECT_EQ(r.thread[0], 8u);
  EXPECT_TRUE(r.writes);
  EXPECT_EQ(r.size, 4u);
  EXPECT_EQ(r.instruction, "st.global.u32");
  EXPECT_EQ(r.file, "k.cu");
  EXPECT_EQ(r.line, 41u);
  EXPECT_EQ(launch(entry(head + "ld.global.u32 %r1, [%rd1+2]; ret;"), memory, at, 1).kind, FaultKind::misaligned);
  EXPECT_EQ(launch(entry(head + "ld.shared.u32 %r1, [4096]; ret;"), memory, at, 1).kind, FaultKind::shared);
  // 28 bytes: up to the end of their unit of 128.
  const std::string wide = "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [";
  EXPECT_EQ(launch(entry(wide + "16]; ret;"), memory, at, 1, 1, 28).kind, FaultKind::none);
  EXPECT_EQ(launch(entry(wide + "128]; ret;"), memory, at, 1, 1, 28).kind, FaultKind::shared);
  EXPECT_EQ(launch(entry("trap;"), memory, at, 1).kind, FaultKind::trap);
}

// Of all that a module has a kernel's block holds what it uses, and what functions use lies in the same place for each.
TEST(KernelBlock, SharedVariablesOfAModule) {
  const std::string module =
      ".shared .align 4 .b8 others[200000];\n.shared .align 4 .b32 mine;\n.shared .align 4 .b32 common;\n"
      ".func set(.reg .b32 a) { .shared .b32 own; st.shared.u32 [common], a; st.shared.u32 [own], a; ret; }\n"
      ".entry first() { .reg .b32 %r<2>; ld.shared.u32 %r1, [others]; ret; }\n";
  std::vector<uint32_t> in(1), out(2);
  Blocks memory;
  const std::string ptx = entry(
      ".shared .b32 inner; mov.u32 %r1, 1; st.shared.u32 [inner], %r1; mov.u32 %r1, 2; st.shared.u32 [mine], %r1; "
      "mov.u32 "
      "%r2, 5; call set, (%r2); ld.shared.u32 %r3, [common]; ld.shared.u32 %r4, [inner]; ld.shared.u32 %r5, [mine]; "
      "add.u32 %r4, %r4, %r5; ld.param.u64 %rd2, [out]; st.global.v2.u32 [%rd2], {%r3, %r4}; ret;",
      module);
  const Result r = launch(ptx, memory, {memory.add(in), memory.add(out)}, 1);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text;
  EXPECT_EQ(out, (std::vector<uint32_t>{5, 3}));
  std::string error;
  const auto program = load(ptx, &error);
  ASSERT_TRUE(program) << error;
  EXPECT_EQ(program->codes[program->functions.at("kernel")].static_shared, 16u);
  EXPECT_EQ(program->codes[program->functions.at("first")].static_shared, 200000u);
}

// The device's runtime may be linked in as PTX, whose calls only NVIDIA's driver knows.
TEST(KernelBlock, TheDevicesRuntimeIsItsMeaning) {
  std::vector<uint32_t> in(1), out(2, 7);
  Blocks memory;
  const Result r = launch(
      entry(
          "ld.param.u64 %rd2, [out]; { .param .b64 a; .param .b32 r; st.param.b64 [a], %rd2; call (r), cudaGetDevice, "
          "(a); ld.param.b32 %r1, [r]; } st.global.u32 [%rd2+4], %r1; ret;",
          ".extern .func (.param .b32 r) __cuda_syscall(.param .b64 a);\n.func (.param .b32 r) cudaGetDevice(.param "
          ".b64 a) { .param .b64 b; .param .b32 s; call (s), __cuda_syscall, (b); ret; }\n"),
      memory, {memory.add(in), memory.add(out)}, 1);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text;
  EXPECT_EQ(out, (std::vector<uint32_t>{0, 0}));
}

TEST(KernelBlock, WhatIsNotKnownIsSaidWhereItIsMet) {
  std::vector<uint32_t> in(1);
  Blocks memory;
  const std::vector<uint64_t> at = {memory.add(in)};
  const std::string rare = "mov.u32 %r0, %tid.x; setp.gt.u32 %p1, %r0, 100; @%p1 tcgen05.shift.b64 [%rd1]; ret;";
  EXPECT_EQ(launch(entry(rare), memory, at, 32).kind, FaultKind::none);
  const Result r = launch(entry(rare), memory, at, 128);
  EXPECT_EQ(r.kind, FaultKind::not_computed);
  EXPECT_EQ(r.text, "tcgen05.shift.b64");
}

TEST(KernelBlock, AStackHasAnEnd) {
  std::vector<uint32_t> in(1);
  Blocks memory;
  const std::string before = ".func deep() { .local .b8 much[65536]; call deep; ret; }\n";
  EXPECT_EQ(launch(entry("call deep; ret;", before), memory, {memory.add(in)}, 32).kind, FaultKind::stack);
  // A GiB of a thread's own, in the kernel and in a function.
  const std::string own = ".local .b8 own[1073741824]; mov.u64 %rd1, own; st.local.u32 [%rd1], 1; ret;";
  EXPECT_EQ(launch(entry(own), memory, {memory.add(in)}, 1).kind, FaultKind::stack);
  EXPECT_EQ(
      launch(entry("call large; ret;", ".func large() { .reg .b64 %rd1; " + own + " }\n"), memory, {memory.add(in)}, 1)
          .kind,
      FaultKind::stack);
  // More registers than there is memory for, and more shared memory than a device has.
  EXPECT_NE(launch(entry(".reg .b64 %many<1000000>; ret;"), memory, {memory.add(in)}, 1024).kind, FaultKind::none);
  EXPECT_EQ(launch(entry(".shared .b8 much[1073741824]; ret;"), memory, {memory.add(in)}, 1).kind,
            FaultKind::not_computed);
}

// A, B of halves and C of floats, by the places that the manual gives: A's row r and B's column c have r and c + k in
// them.
TEST(KernelBlock, MatricesOfAWarp) {
  const auto out = each<float>(
      "shr.u32 %r1, %r0, 2; cvt.rn.f16.u32 %h1, %r1; add.u32 %r2, %r1, 8; cvt.rn.f16.u32 %h2, %r2; mov.b32 %r3, {%h1, "
      "%h1}; mov.b32 %r4, {%h2, %h2};\n"
      "mov.b32 %r5, {%h1, %h1}; mov.f32 %f1, 0f3F800000;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r3, %r4, %r3, %r4}, {%r5, %r5}, {%f1, "
      "%f1, %f1, %f1};\n"
      "st.global.v4.f32 [%rd2], {%f2, %f3, %f4, %f5};",
      std::vector<uint32_t>(32), 1, 4);
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t j = 0; j < 4; ++j) {
      const uint32_t row = i / 4 + (j / 2) * 8, column = i % 4 * 2 + j % 2;
      EXPECT_EQ(out[4 * i + j], 1 + 16.0f * static_cast<float>(row * column));
    }
}

// Sums of products of small whole numbers, by what wmma loads and stores, however it keeps them. Each line: rows,
// columns, depth, registers of A, B and C.
TEST(KernelBlock, MatricesOfWmma) {
  struct Case {
    const char *shape, *type, *sum;
    uint32_t rows, columns, depth, a, b, c;
    const char* types;  // of the product
  };
  const Case cases[] = {
      {"m16n16k16", "f16", "f32", 16, 16, 16, 8, 8, 8, "f32.f32"},
      {"m32n8k16", "f16", "f32", 32, 8, 16, 8, 8, 8, "f32.f32"},
      {"m8n32k16", "f16", "f32", 8, 32, 16, 8, 8, 8, "f32.f32"},
      {"m16n16k16", "bf16", "f32", 16, 16, 16, 4, 4, 8, "f32.bf16.bf16.f32"},
      {"m8n32k16", "bf16", "f32", 8, 32, 16, 2, 8, 8, "f32.bf16.bf16.f32"},
      {"m16n16k8", "tf32", "f32", 16, 16, 8, 4, 4, 8, "f32.tf32.tf32.f32"},
      {"m16n16k16", "s8", "s32", 16, 16, 16, 2, 2, 8, "s32.s8.s8.s32"},
      {"m32n8k16", "u8", "s32", 32, 8, 16, 4, 1, 8, "s32.u8.u8.s32"},
      {"m8n8k32", "s4", "s32", 8, 8, 32, 1, 1, 2, "s32.s4.s4.s32"},
      {"m8n8k4", "f64", "f64", 8, 8, 4, 1, 1, 2, "f64.f64.f64.f64"},
  };
  const auto numbers = [](uint32_t i) { return static_cast<int>(i * 7 % 5); };
  for (const Case& one : cases) {
    const std::string type = one.type, sum = one.sum;
    const bool wide = type == "f64";
    // A by rows and B by columns: both have the depth one behind the other.
    std::vector<uint8_t> a(one.rows * one.depth * 8), b(one.columns * one.depth * 8);
    const auto put = [&](std::vector<uint8_t>& to, uint32_t i, int value) {
      if (type == "f16")
        reinterpret_cast<_Float16*>(to.data())[i] = static_cast<_Float16>(value);
      else if (type == "bf16")
        reinterpret_cast<uint16_t*>(to.data())[i] =
            static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
      else if (type == "tf32")
        reinterpret_cast<float*>(to.data())[i] = static_cast<float>(value);
      else if (wide)
        reinterpret_cast<double*>(to.data())[i] = value;
      else if (type == "s4")
        to[i / 2] = static_cast<uint8_t>(to[i / 2] | (value & 15) << (4 * (i % 2)));
      else
        to[i] = static_cast<uint8_t>(value);
    };
    const int negative = type == "u8" ? 0 : 1;
    for (uint32_t i = 0; i < one.rows * one.depth; ++i) put(a, i, numbers(i) - negative);
    for (uint32_t i = 0; i < one.columns * one.depth; ++i) put(b, i, numbers(i + 3) - negative);
    std::vector<double> out(one.rows * one.columns);
    Blocks memory;
    std::string registers;
    const auto list = [&](const char* name, uint32_t count) {
      std::string all = "{";
      for (uint32_t i = 0; i < count; ++i) all += std::string(i ? ", %" : "%") + name + std::to_string(i);
      return all + "}";
    };
    const std::string bits = wide ? "64" : "32";
    const std::string shape = one.shape, load = ".sync.aligned.";
    const std::string ab = type;
    const std::string text =
        ".reg .b" + bits +
        " %a<9>, %b<9>, %c<9>; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, " +
        "[other]; mov.u32 %r1, " + std::to_string(one.depth) + ";\n" + "wmma.load.a" + load + "row." + shape +
        ".global." + ab + " " + list("a", one.a) + ", [%rd1], %r1;\n" + "wmma.load.b" + load + "col." + shape + "." +
        ab + " " + list("b", one.b) + ", [%rd3];\n" + "wmma.load.c" + load + "row." + shape + ".global." + sum + " " +
        list("c", one.c) + ", [%rd2];\n" + "wmma.mma" + load + "row.col." + shape + "." + one.types + " " +
        list("c", one.c) + ", " + list("a", one.a) + ", " + list("b", one.b) + ", " + list("c", one.c) + ";\n" +
        "wmma.store.d" + load + "row." + shape + ".global." + sum + " [%rd2], " + list("c", one.c) + ";\nret;";
    const auto set = [&](uint32_t i, int value) {
      if (wide)
        out[i] = value;
      else if (sum == "f32")
        reinterpret_cast<float*>(out.data())[i] = static_cast<float>(value);
      else
        reinterpret_cast<int*>(out.data())[i] = value;
    };
    for (uint32_t i = 0; i < one.rows * one.columns; ++i) set(i, static_cast<int>(i % 9));
    const Result r = launch(entry(text), memory, {memory.add(a), memory.add(out), memory.add(b)}, 32);
    ASSERT_EQ(r.kind, FaultKind::none) << r.text << " " << r.instruction;
    for (uint32_t row = 0; row < one.rows; ++row)
      for (uint32_t column = 0; column < one.columns; ++column) {
        const uint32_t i = row * one.columns + column;
        int expected = static_cast<int>(i % 9);
        for (uint32_t k = 0; k < one.depth; ++k)
          expected += (numbers(row * one.depth + k) - negative) * (numbers(column * one.depth + k + 3) - negative);
        const double found = wide           ? out[i]
                             : sum == "f32" ? static_cast<double>(reinterpret_cast<float*>(out.data())[i])
                                            : reinterpret_cast<int*>(out.data())[i];
        ASSERT_EQ(found, expected) << shape << " " << type << " " << row << " " << column;
      }
  }
}

// Single bits: A's row r has its bit k set where k < 8 * r, B's column where k < 16.
TEST(KernelBlock, MatricesOfBits) {
  std::vector<uint32_t> a(8 * 4), b(8 * 4), out(2 * 64);
  for (uint32_t row = 0; row < 8; ++row) a[row * 4] = (1u << (4 * row)) - 1, b[row * 4] = 0xffff;
  Blocks memory;
  const std::string load = ".sync.aligned.";
  const Result r = launch(
      entry("ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [other]; mov.u32 %r9, 0;\n"
            "wmma.load.a.sync.aligned.row.m8n8k128.b1 {%r1}, [%rd1]; wmma.load.b.sync.aligned.col.m8n8k128.b1 {%r2}, "
            "[%rd3], 128;\n"
            "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r3, %r4}, {%r1}, {%r2}, {%r9, %r9};\n"
            "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r5, %r6}, {%r1}, {%r2}, {%r9, %r9};\n"
            "wmma.store.d.sync.aligned.row.m8n8k128.s32 [%rd2], {%r3, %r4}; "
            "wmma.store.d.sync.aligned.row.m8n8k128.s32 [%rd2+256], {%r5, %r6}; ret;"),
      memory, {memory.add(a), memory.add(out), memory.add(b)}, 32);
  ASSERT_EQ(r.kind, FaultKind::none) << r.text << " " << r.instruction;
  for (uint32_t row = 0; row < 8; ++row)
    for (uint32_t column = 0; column < 8; ++column) {
      EXPECT_EQ(out[row * 8 + column], static_cast<uint32_t>(std::popcount(a[row * 4] ^ 0xffffu)));
      EXPECT_EQ(out[64 + row * 8 + column], static_cast<uint32_t>(std::popcount(a[row * 4] & 0xffffu)));
    }
}

// Each level counts, and launches the next one and, at its end, one that takes down how far it had come by then.
TEST(KernelBlock, KernelsLaunchKernels) {
  const std::string before =
      ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f, .param .align 4 .b8 g[12], .param "
      ".align 4 .b8 b[12], .param .b32 s);\n.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, "
      ".param .b64 s);\n.extern .func (.param .b32 r) __cudaCDP2MemsetAsync(.param .b64 p, .param .b32 v, .param .b64 "
      "n, .param .b64 s);\n"
      ".entry late(.param .u64 out) { .reg .b64 %rd<3>; .reg .b32 %r<3>; ld.param.u64 %rd1, [out]; ld.global.u32 %r1, "
      "[%rd1]; st.global.u32 [%rd1+4], %r1; ret; }\n"
      ".entry child(.param .u64 out, .param .u32 levels);\n"
      ".func launch(.param .b64 kernel, .param .b64 out, .param .b32 levels, .param .b64 stream) {\n"
      ".reg .b64 %rd<5>; .reg .b32 %r<3>; ld.param.b64 %rd1, [kernel]; ld.param.b64 %rd2, [out]; ld.param.b32 %r1, "
      "[levels]; ld.param.b64 %rd3, [stream];\n"
      "{ .param .b64 f; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 s; .param .b64 r;\n"
      "st.param.b64 [f], %rd1; st.param.b32 [g], 2; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1; st.param.b32 [b], 4; "
      "st.param.b32 [b+4], 1; st.param.b32 [b+8], 1; st.param.b32 [s], 0;\n"
      "call (r), __cudaCDP2GetParameterBufferV2, (f, g, b, s); ld.param.b64 %rd4, [r]; }\n"
      "st.u64 [%rd4], %rd2; .reg .pred %p; setp.eq.u64 %p, %rd3, 3; @%p bra ON; st.u32 [%rd4+8], %r1;\n"
      "ON: { .param .b64 p; .param .b64 s; .param .b32 r; st.param.b64 [p], %rd4; st.param.b64 [s], %rd3; call (r), "
      "__cudaCDP2LaunchDeviceV2, (p, s); }\nret; }\n"
      ".func one(.param .b64 out, .param .b32 levels) { .reg .b64 %rd<5>; .reg .b32 %r<4>; .reg .pred %p<3>;\n"
      "ld.param.b64 %rd1, [out]; ld.param.b32 %r1, [levels]; atom.global.add.u32 %r2, [%rd1], 1; mov.u32 %r3, %tid.x; "
      "setp.ne.u32 %p1, %r3, 0; @%p1 ret; mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r3, 0; @%p1 ret; setp.eq.u32 %p2, "
      "%r1, 0; @%p2 ret; sub.u32 %r1, %r1, 1;\n"
      "mov.u64 %rd2, late; mov.u64 %rd3, child; mov.u64 %rd4, 3;\n"
      "{ .param .b64 k; .param .b64 o; .param .b32 l; .param .b64 s; st.param.b64 [k], %rd2; st.param.b64 [o], %rd1; "
      "st.param.b32 [l], 0; st.param.b64 [s], %rd4; call launch, (k, o, l, s); }\n"
      "{ .param .b64 k; .param .b64 o; .param .b32 l; .param .b64 s; st.param.b64 [k], %rd3; st.param.b64 [o], %rd1; "
      "st.param.b32 [l], %r1; st.param.b64 [s], 0; call launch, (k, o, l, s); }\nret; }\n"
      ".entry child(.param .u64 out, .param .u32 levels) { .reg .b64 %rd1; .reg .b32 %r1; ld.param.u64 %rd1, [out]; "
      "ld.param.u32 %r1, [levels]; { .param .b64 o; .param .b32 l; st.param.b64 [o], %rd1; st.param.b32 [l], %r1; "
      "call one, (o, l); }\n.loc 1 7 1\nld.global.u32 %r1, [%rd1+8]; ret; }\n";
  std::vector<uint32_t> in(1), out(2);
  const std::string ptx = entry(
      "ld.param.u64 %rd1, [out]; { .param .b64 o; .param .b32 l; st.param.b64 [o], %rd1; st.param.b32 [l], 3; call "
      "one, (o, l); } { .param .b64 p; .param .b32 v; .param .b64 n; .param .b64 s; .param .b32 r; ld.param.u64 %rd2, "
      "[other]; st.param.b64 [p], %rd2; st.param.b32 [v], 7; st.param.b64 [n], 6; st.param.b64 [s], 0; call (r), "
      "__cudaCDP2MemsetAsync, (p, v, n, s); } ret;",
      before);
  // The last word is none of its own: a fault of a kernel that a kernel launched.
  {
    Blocks memory;
    const Result r = launch(ptx, memory, {memory.add(in), memory.add(out), 0}, 1);
    EXPECT_EQ(r.kind, FaultKind::address) << r.text;
    EXPECT_EQ(r.kernel, "child");
    EXPECT_EQ(r.line, 7u);
  }
  out.assign(4, 0);
  std::vector<uint8_t> set(8);
  Blocks memory;
  const Result r = launch(ptx, memory, {memory.add(in), memory.add(out), memory.add(set)}, 1);
  EXPECT_EQ(r.kind, FaultKind::none) << r.text << " " << r.instruction;
  EXPECT_EQ(out[0], 1u + 3 * 8);
  EXPECT_EQ(out[1], out[0]);  // the outermost grid's end is the last one
  EXPECT_EQ(set, (std::vector<uint8_t>{7, 7, 7, 7, 7, 7, 0, 0}));
  EXPECT_EQ(memory.released, 6);
  // No memory for its own: what is set there is the fault.
  Blocks less;
  const Result none = launch(ptx, less, {less.add(in), less.add(out), 64}, 1);
  EXPECT_EQ(none.kind, FaultKind::address);
  EXPECT_EQ(none.address, 64u);
}

// As numba's kernels have it: declared, and defined by nobody.
TEST(KernelBlock, TheBarrierOfTheDevicesRuntime) {
  const std::string before =
      ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);\n.extern .func (.param .b32 r) "
      "cudaCGSynchronize(.param .b64 h, .param .b32 f);\n";
  const std::string meet =
      "{ .param .b64 h; .param .b32 f; .param .b32 r; st.param.b64 [h], %rd5; st.param.b32 [f], 0; call (r), "
      "cudaCGSynchronize, (h, f); ld.param.b32 %r9, [r]; }\n";
  const std::string ptx = entry(
      "ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [other]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; "
      "mul.wide.u32 "
      "%rd4, %r1, 4; add.u64 %rd2, %rd2, %rd4;\n"
      "{ .param .b32 s; .param .b64 r; st.param.b32 [s], 1; call (r), cudaCGGetIntrinsicHandle, (s); ld.param.b64 "
      "%rd5, "
      "[r]; }\n"
      "st.global.u32 [%rd2], %r1;\n" +
          meet +
          "add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, %r2; ld.param.u64 %rd6, [out]; mul.wide.u32 %rd7, %r3, 4; add.u64 "
          "%rd6, %rd6, %rd7; ld.global.u32 %r4, [%rd6];\n" +
          meet + "shl.b32 %r9, %r9, 16; add.u32 %r4, %r4, %r9; st.global.u32 [%rd2], %r4; ret;",
      before);
  std::vector<uint32_t> in(1), out(20);
  std::vector<uint32_t> workspace = {8, 0};
  Blocks memory;
  const uint64_t at = memory.add(workspace);
  const std::vector<uint64_t> addresses = {memory.add(in), memory.add(out)};
  const Result r = launch(ptx, memory, addresses, 64, 20, 0, 2, 60, at);
  ASSERT_EQ(r.kind, FaultKind::none) << r.text;
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(out[i], (i + 1) % 20);
  // Without a cooperative launch it is an error's number. One block with one thread: nothing orders more of them.
  ASSERT_EQ(launch(ptx, memory, addresses, 1).kind, FaultKind::none);
  EXPECT_EQ(out[0], 1u << 16);
}

// Two clusters of two blocks: addresses in the other's shared memory, a barrier there that counts bytes, one copy to
// both.
TEST(KernelBlock, BlocksOfAClusterUseEachOthersSharedMemory) {
  const std::string ptx =
      ".version 8.3\n.target sm_90\n.address_size 64\n" +
      std::string(
          ".visible .entry kernel(.param .u64 in, .param .u64 out, .param .u64 other) .reqnctapercluster 2 {\n"
          ".reg .pred %p<9>; .reg .b16 %h<3>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .shared .align 16 .b8 all[64]; "
          ".shared "
          ".align 8 .b64 bar;\n"
          "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; "
          "mul.wide.u32 %rd3, %r2, 32; add.u64 %rd2, %rd2, %rd3; xor.b32 %r3, %r1, 1;\n"
          "mov.u32 %r4, all; mov.u32 %r5, bar; mbarrier.init.shared.b64 [%r5], 1; add.u32 %r6, %r2, 100; st.shared.u32 "
          "[%r4+32], %r6;\n"
          "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n"
          "mapa.shared::cluster.u32 %r7, %r4, %r3; ld.shared::cluster.u32 %r8, [%r7+32]; "
          "getctarank.shared::cluster.u32 %r9, "
          "%r7; st.global.v2.u32 [%rd2], {%r8, %r9};\n"
          "mapa.shared::cluster.u32 %r10, %r5, %r3; mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 20; mov.u32 %r11, "
          "7;\n"
          "barrier.cluster.arrive; barrier.cluster.wait;\n"
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7+48], %r11, [%r10];\n"
          "setp.ne.u32 %p1, %r1, 0; mov.u16 %h1, 3; @!%p1 "
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4], [%rd1], 16, "
          "[%r5], "
          "%h1;\n"
          "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra WAIT;\n"
          "ld.shared.u32 %r12, [%r4+12]; ld.shared.u32 %r13, [%r4+48]; cvta.shared.u64 %rd4, %rd5; mov.u64 %rd5, all; "
          "cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, %r3; ld.u32 %r14, [%rd6+8]; isspacep.shared::cluster %p3, "
          "%rd6; "
          "isspacep.shared::cta %p4, %rd6; selp.b32 %r15, 1, 0, %p3; selp.b32 %r16, 2, 0, %p4; add.u32 %r15, %r15, "
          "%r16;\n"
          "st.global.v4.u32 [%rd2+16], {%r12, %r13, %r14, %r15}; mov.u32 %r17, %nclusterid.x; mov.u32 %r18, "
          "%clusterid.x; "
          "st.global.v2.u32 [%rd2+8], {%r17, %r18};\n"
          "barrier.cluster.arrive; barrier.cluster.wait; ret; }\n");
  std::vector<uint32_t> in = {1, 2, 3, 4}, out(4 * 8);
  for (const unsigned workers : {1u, 2u}) {
    Blocks memory;
    const Result r = launch(ptx, memory, {memory.add(in), memory.add(out)}, 1, 4, 0, workers);
    ASSERT_EQ(r.kind, FaultKind::none) << r.text << " " << r.instruction;
    for (uint32_t i = 0; i < 4; ++i) {
      const std::vector<uint32_t> expected = {(i ^ 1) + 100, i % 2 ^ 1, 2, i / 2, 4, 7, 3, 1};
      EXPECT_EQ(std::vector<uint32_t>(out.begin() + 8 * i, out.begin() + 8 * i + 8), expected) << i;
    }
    std::ranges::fill(out, 0);
  }
  // No block of that rank, and a grid of no whole number of clusters.
  std::string beyond = ptx;
  beyond.replace(beyond.find("%r4, %r3"), 8, "%r4, 7  ");
  Blocks memory;
  EXPECT_EQ(launch(beyond, memory, {memory.add(in), memory.add(out)}, 1, 4).kind, FaultKind::shared);
  EXPECT_EQ(launch(ptx, memory, {memory.add(in), memory.add(out)}, 1, 3).kind, FaultKind::not_computed);
}

// Whatever a text says: its threads only use what is theirs. The seed is fixed, so that it is the same each time.
TEST(KernelBlock, ChangedTextNeverHarms) {
  const std::string whole = entry(
      ".local .align 8 .b8 own[32]; .shared .align 8 .b8 all[256]; mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [in]; "
      "ld.param.u64 %rd2, [out];\n"
      "mad.wide.u32 %rd3, %r0, 4, %rd1; ld.global.u32 %r1, [%rd3]; setp.gt.s32 %p1, %r1, 3; @%p1 bra "
      "ON;\nshfl.sync.bfly.b32 %r2|%p2, %r1, 1, 31, -1;\n"
      "ON: cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f2, %f1, %f1, 0f3F800000; mov.b64 %rd4, {%r1, %r2}; st.local.u64 "
      "[own+8], %rd4; ld.local.v2.u32 {%r3, %r4}, [own+8];\n"
      "mul.wide.u32 %rd5, %r0, 4; st.shared.u32 [all+4], %r3; bar.sync 0; atom.shared.add.u32 %r5, [all+4], 1; mov.u64 "
      "%rd6, helper;\n"
      "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r5; call (r), helper, (a); ld.param.b32 %r6, [r]; }\n"
      "prmt.b32 %r7, %r6, %r5, 0x3210; mov.b32 {%h1, %h2}, %r7; fma.rn.f16x2 %r8, %r7, %r7, %r7; add.s64 %rd7, %rd2, "
      "%rd5; st.global.u32 [%rd7], %r8;\n"
      "vote.sync.ballot.b32 %r9, %p1, -1; bfe.u32 %r10, %r9, 3, 5; LOOP: add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, "
      "40; @%p3 bra LOOP; ret;",
      ".func (.param .b32 r) helper(.param .b32 a) { .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.u32 %r2, %r1, 5; "
      "st.param.b32 [r], %r2; ret; }");
  std::mt19937 random(7);
  std::vector<uint32_t> in(64), out(64);
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    const size_t body = text.find("{");
    for (int i = static_cast<int>(random() % 4); i >= 0; --i) {
      const size_t at = body + random() % (text.size() - body);
      switch (random() % 3) {
        case 0:
          text[at] = "{}[]|.,;:!@-+%0123456789fsub"[random() % 28];
          break;
        case 1:
          text.erase(at, random() % 6);
          break;
        default:
          text.insert(at, text.substr(body + random() % (text.size() - body), random() % 30));
      }
    }
    std::string error;
    const auto program = load(text, &error);
    if (!program || !program->functions.contains("kernel")) continue;
    const uint32_t kernel = program->functions.at("kernel");
    if (!program->module.functions[kernel].entry || !program->module.functions[kernel].defined) continue;
    Blocks memory;
    Launch l;
    l.block[0] = 64;
    l.seconds = 0.02;
    const uint64_t addresses[3] = {memory.add(in), memory.add(out), 0};
    l.parameters.resize(24);
    std::memcpy(l.parameters.data(), addresses, 24);
    l.variables.resize(program->module.variables.size());
    run(*program, kernel, l, memory);
  }
}

}  // namespace

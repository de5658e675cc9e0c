// What a block costs to remember and forget, without a Python stack (there is no Python here; stacks_bench measures
// those). It is measured with a native one, or with none (DEVTRACE_OPTIONS=allocation_stacks=0;
// tests/bench/allocations.py sets the two side by side).
#include <benchmark/benchmark.h>

#include <cstdio>

#include "tracker/memory/provenance.h"
#include "tracker/stacks/stacks.h"

namespace {

using devtrace::Device;
namespace memory = devtrace::memory;

constexpr uintptr_t kBase = 0x7000'0000'0000;

// `live` blocks stay; one more comes and goes.
void GiveAndTake(benchmark::State& state) {
  const auto live = static_cast<uintptr_t>(state.range(0));
  for (uintptr_t i = 0; i < live; ++i) memory::provenance::given(kBase + i * 512, 512, Device::cuda(0));
  uintptr_t next = kBase + live * 512;
  for (auto _ : state) {
    memory::provenance::given(next, 512, Device::cuda(0));
    memory::provenance::taken(next);
  }
  for (uintptr_t i = 0; i < live; ++i) memory::provenance::taken(kBase + i * 512);
}
BENCHMARK(GiveAndTake)->Arg(10)->Arg(10'000)->Arg(1'000'000);
BENCHMARK(GiveAndTake)->Arg(10'000)->Threads(2);

[[gnu::noinline]] void below(size_t frames, benchmark::State& state) {
  void* addresses[128];
  if (devtrace::stacks::capture_native(addresses, 128) < frames) {
    below(frames, state);
    asm volatile("");  // not a tail call
    return;
  }
  // Like a caching allocator of every thread: each takes and gives back memory of its own.
  const uintptr_t mine = kBase + static_cast<uintptr_t>(state.thread_index() + 1) * (uintptr_t{1} << 30);
  uintptr_t next = mine;
  for (auto _ : state) {
    memory::provenance::allocated(next, 512, Device::cuda(0));
    memory::provenance::freed(next);
    next = mine + (next + 512) % (uintptr_t{1} << 20);
  }
}

// The same under so many frames of C++.
void AllocateBelow(benchmark::State& state) {
  below(static_cast<size_t>(state.range(0)), state);
}
BENCHMARK(AllocateBelow)->Arg(20)->Arg(60);
BENCHMARK(AllocateBelow)->Arg(20)->Threads(8);

// Bytes of a live block, with 1024 places that allocate.
void BytesOfABlock(benchmark::State& state) {
  constexpr uintptr_t kBlocks = 1'000'000;
  size_t before = 0, after = 0;
  const auto resident = [] {
    FILE* file = std::fopen("/proc/self/statm", "r");
    unsigned long all = 0, here = 0;
    if (!file || std::fscanf(file, "%lu %lu", &all, &here) != 2) here = 0;
    if (file) std::fclose(file);
    return here * 4096;
  };
  for (auto _ : state) {
    before = resident();
    for (uintptr_t i = 0; i < kBlocks; ++i) memory::provenance::given(2 * kBase / 3 + i * 512, 512, Device::cuda(0));
    after = resident();
  }
  state.counters["bytes"] = static_cast<double>(after - before) / kBlocks;
}
BENCHMARK(BytesOfABlock)->Iterations(1);

// A copy whose target was not allocated by the same statement: the usual one.
void Copy(benchmark::State& state) {
  memory::provenance::given(kBase, 512, Device::cpu());
  memory::provenance::given(kBase + 512, 512, Device::cuda(0));
  for (auto _ : state) memory::provenance::copied(kBase + 512 + 64, kBase);
}
BENCHMARK(Copy);

}  // namespace

BENCHMARK_MAIN();

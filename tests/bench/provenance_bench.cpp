// What a block costs to remember and forget, without a Python stack (there is no Python here; stacks_bench measures
// those).
#include <benchmark/benchmark.h>

#include "tracker/memory/provenance.h"

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

// A copy whose target was not allocated by the same statement: the usual one.
void Copy(benchmark::State& state) {
  memory::provenance::given(kBase, 512, Device::cpu());
  memory::provenance::given(kBase + 512, 512, Device::cuda(0));
  for (auto _ : state) memory::provenance::copied(kBase + 512 + 64, kBase);
}
BENCHMARK(Copy);

}  // namespace

BENCHMARK_MAIN();

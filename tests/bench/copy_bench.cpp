// What a copy costs the thread that makes it: events::copied against a function that does nothing, called alike. With
// Python, the copy is told from below so many Python frames of an interpreter started here (the first libpython found).
#include <benchmark/benchmark.h>

#include <string>

#include "tests/bench/in_python.h"
#include "tracker/events.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/provenance.h"

namespace {

using devtrace::Device;
using devtrace::testing::in_python;
using devtrace::testing::python;
namespace events = devtrace::events;
using events::Copy;
using events::Direction;

constexpr uintptr_t kBase = 0x7000'0000'0000;
constexpr uintptr_t kOther = 0x7100'0000'0000;
constexpr uintptr_t kHost = 0x5500'0000'0000;
constexpr size_t kBytes = 64 << 20;

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

// As a hook hands it over.
Copy copy_of(uintptr_t to, uintptr_t from, Direction direction) {
  return {.to = at(to), .from = at(from), .bytes = 4096, .direction = direction, .function = "cudaMemcpyAsync"};
}

void prepare() {
  static const bool once = [] {
    devtrace::ownership::add({kBase, kBytes, Device::cuda(0)});
    devtrace::ownership::add({kOther, kBytes, Device::cuda(1)});
    devtrace::provenance::given(kBase, kBytes, Device::cuda(0));
    devtrace::provenance::given(kOther, kBytes, Device::cuda(1));
    devtrace::provenance::given(kHost, kBytes, Device::cpu());
    return true;
  }();
  (void)once;
}

[[gnu::noinline]] void nothing(const Copy& copy) {
  asm volatile("" : : "r"(&copy) : "memory");
}

void emitted(benchmark::State& state, void (*emit)(const Copy&), uintptr_t to, uintptr_t from, Direction direction) {
  for (auto _ : state) {
    Copy copy = copy_of(to + 64, from + 64, direction);
    benchmark::DoNotOptimize(copy);
    emit(copy);
  }
}

void Empty(benchmark::State& state) {
  emitted(state, nothing, kBase, kHost, Direction::host_to_device);
}
BENCHMARK(Empty);

void WithinOneDevice(benchmark::State& state) {
  prepare();
  emitted(state, events::copied, kBase, kBase + 4096, Direction::device_to_device);
}
BENCHMARK(WithinOneDevice);

void FromTheHost(benchmark::State& state) {
  prepare();
  emitted(state, events::copied, kBase, kHost, Direction::host_to_device);
}
BENCHMARK(FromTheHost);
BENCHMARK(FromTheHost)->Threads(2)->UseRealTime();

void BetweenDevices(benchmark::State& state) {
  prepare();
  emitted(state, events::copied, kBase, kOther, Direction::device_to_device);
}
BENCHMARK(BetweenDevices);

// As `.to()` does: the block is given out, filled and taken back. What the copy adds is the difference.
void moved(benchmark::State& state, void (*emit)(const Copy&)) {
  prepare();
  constexpr uintptr_t kTarget = kOther + kBytes / 2;  // in memory that CUDA gave, as the blocks of PyTorch are
  for (auto _ : state) {
    devtrace::provenance::given(kTarget, 4096, Device::cuda(1));
    Copy copy = copy_of(kTarget, kBase, Direction::device_to_device);
    benchmark::DoNotOptimize(copy);
    emit(copy);
    devtrace::provenance::taken(kTarget);
  }
}
void BlockWithoutMove(benchmark::State& state) {
  moved(state, nothing);
}
BENCHMARK(BlockWithoutMove);
void BlockWithMove(benchmark::State& state) {
  moved(state, events::copied);
}
BENCHMARK(BlockWithMove);

benchmark::State* running = nullptr;

// The stack was seen before, as that of every copy but a call site's first.
void BetweenDevicesWithPython(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  prepare();
  running = &state;
  in_python = [] { emitted(*running, events::copied, kBase, kOther, Direction::device_to_device); };
  python()->run(("below(" + std::to_string(state.range(0) - 1) + ")").c_str());
}
BENCHMARK(BetweenDevicesWithPython)->Arg(2)->Arg(20);

void BlockWithoutMoveWithPython(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  running = &state;
  in_python = [] { moved(*running, nothing); };
  python()->run("below(19)");
}
BENCHMARK(BlockWithoutMoveWithPython);
void BlockWithMoveWithPython(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  running = &state;
  in_python = [] { moved(*running, events::copied); };
  python()->run("below(19)");
}
BENCHMARK(BlockWithMoveWithPython);

}  // namespace

BENCHMARK_MAIN();

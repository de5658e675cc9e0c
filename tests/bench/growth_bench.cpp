// How the cost of a launch, a block and a stack grows: with threads, devices, live blocks, Python frames and places
// that allocate. `make bench-growth` draws it; each is named NAME/what:amount, and its figure is processor time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "tests/bench/in_python.h"
#include "tests/unit/tracker/quiet.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"
#include "tracker/launch/kernels.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/provenance.h"

namespace {

using namespace devtrace;
using devtrace::testing::in_python;
using devtrace::testing::python;

constexpr uintptr_t kBase = 0x7000'0000'0000;
constexpr uintptr_t kStep = 2 << 20;
constexpr int kDevices = memory::ownership::kDevices, kPointers = 4;
constexpr std::array<char, 1> kKernel{};

void prepare() {
  static const bool done = [] {
    set_platform(test::platform_of_device_0());
    for (uintptr_t i = 0; i < kDevices * kPointers; ++i)
      memory::ownership::add({kBase + i * kStep, kStep, Device::cuda(static_cast<int8_t>(i / kPointers))});
    std::vector<device::Parameter> parameters;
    for (size_t i = 0; i < kPointers; ++i) parameters.push_back({i * sizeof(uintptr_t), sizeof(uintptr_t)});
    launch::kernels::remember(kKernel.data(), "kernel", parameters);
    return true;
  }();
  benchmark::DoNotOptimize(done);
}

// A kernel with four pointers, on so many devices in turn.
void launches(benchmark::State& state, int devices) {
  prepare();
  std::vector<uintptr_t> values(static_cast<size_t>(devices) * kPointers);
  for (size_t i = 0; i < values.size(); ++i) values[i] = kBase + i * kStep;
  std::array<void*, kPointers> parameters{};
  int device = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < kPointers; ++i) parameters[i] = &values[static_cast<size_t>(device) * kPointers + i];
    thread_state::set_device(device);
    events::Launch launch;
    launch.function = kKernel.data();
    launch.kernel = launch::kernels::known(launch.function);
    launch.parameters = parameters.data();
    events::launched(launch);
    device = device + 1 == devices ? 0 : device + 1;
  }
}

void LaunchByThreads(benchmark::State& state) {
  launches(state, 1);
}
BENCHMARK(LaunchByThreads)->ThreadRange(1, 64);

void LaunchByDevices(benchmark::State& state) {
  launches(state, static_cast<int>(state.range(0)));
}
BENCHMARK(LaunchByDevices)->ArgName("devices")->RangeMultiplier(2)->Range(1, kDevices);

uintptr_t block(uintptr_t number) {
  return 2 * kBase / 3 + number * 512;
}

// A block that comes and goes; each thread has its own.
void BlockByThreads(benchmark::State& state) {
  const uintptr_t mine = block(static_cast<uintptr_t>(state.thread_index()) << 20);
  uintptr_t next = 0;
  for (auto _ : state) {
    memory::provenance::given(mine + next, 512, Device::cuda(0));
    memory::provenance::taken(mine + next);
    next = (next + 512) % (1 << 20);
  }
}
BENCHMARK(BlockByThreads)->ThreadRange(1, 64);

size_t resident() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long all = 0, here = 0;
  if (!file || std::fscanf(file, "%lu %lu", &all, &here) != 2) here = 0;
  if (file) std::fclose(file);
  return here * 4096;
}

// The same beside so many that stay.
void BlockByLive(benchmark::State& state) {
  const auto live = static_cast<uintptr_t>(state.range(0));
  const size_t before = resident();
  for (uintptr_t i = 0; i < live; ++i) memory::provenance::given(block(i), 512, Device::cuda(0));
  if (live >= 1'000'000) state.counters["bytes"] = static_cast<double>(resident() - before) / static_cast<double>(live);
  for (auto _ : state) {
    memory::provenance::given(block(live), 512, Device::cuda(0));
    memory::provenance::taken(block(live));
  }
  for (uintptr_t i = 0; i < live; ++i) memory::provenance::taken(block(i));
}
// Once each: a map that has grown keeps its size.
BENCHMARK(BlockByLive)->ArgName("live")->RangeMultiplier(10)->Range(10, 10'000'000)->Iterations(1 << 20);

benchmark::State* running = nullptr;

// The stack of a place that allocated before, below so many Python frames.
void StackByFrames(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  running = &state;
  in_python = [] {
    for (auto _ : *running) benchmark::DoNotOptimize(stacks::capture_python());
  };
  python()->run(("below(" + std::to_string(state.range(0) - 1) + ")").c_str());
}
BENCHMARK(StackByFrames)->ArgName("frames")->Arg(10)->Arg(30)->Arg(100)->Arg(300)->Arg(900);

// The same where so many places have allocated, each of a line of its own.
void StackByPlaces(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  static int64_t places = 0;
  static size_t first = resident();
  in_python = [] { benchmark::DoNotOptimize(stacks::capture_python()); };
  for (; places < state.range(0); places += std::min<int64_t>(1000, state.range(0))) {
    const std::string lines = std::to_string(std::min<int64_t>(1000, state.range(0)));
    const std::string name = "places" + std::to_string(places);
    python()->run(("exec(compile('take()\\n' * " + lines + ", '" + name + "', 'exec'))").c_str());
  }
  if (places >= 1'000'000) state.counters["mebibytes"] = static_cast<double>(resident() - first) / (1 << 20);
  running = &state;
  in_python = [] {
    for (auto _ : *running) benchmark::DoNotOptimize(stacks::capture_python());
  };
  python()->run("below(9)");
}
BENCHMARK(StackByPlaces)->ArgName("places")->RangeMultiplier(10)->Range(10, 1'000'000);

}  // namespace

BENCHMARK_MAIN();

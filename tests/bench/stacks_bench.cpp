// What a stack costs. Python ones are taken in an interpreter started here (the first libpython found), from a built-in
// function below so many Python frames.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/in_python.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {
namespace {

using devtrace::testing::in_python;
using devtrace::testing::python;

// First, before any is started: what every process without Python pays.
void NoPython(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(capture_python());
  state.SetLabel(python_status());
}
BENCHMARK(NoPython);

benchmark::State* running = nullptr;

// A stack seen before: the hot path of every allocation.
void PythonKnown(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  running = &state;
  in_python = [] {
    for (auto _ : *running) benchmark::DoNotOptimize(capture_python());
  };
  python()->run(("below(" + std::to_string(state.range(0) - 1) + ")").c_str());
  state.SetLabel(python_status());
}
BENCHMARK(PythonKnown)->Arg(2)->Arg(20)->Arg(100);

// A stack never seen before: twenty frames, of which the innermost has a new line of a new file.
void PythonNew(benchmark::State& state) {
  if (python() == nullptr) return state.SkipWithError("no libpython");
  running = &state;
  in_python = [] {
    if (!running->KeepRunning()) return;
    const auto start = std::chrono::steady_clock::now();
    capture_python();
    running->SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  static int files = 0;
  while (state.iterations() < state.max_iterations) {
    const std::string source = "exec(compile('def last():\\n' + ' take()\\n' * 1000, 'file" + std::to_string(++files) +
                               "', 'exec'))\ndef down(n):\n  if n: down(n - 1)\n  else: last()\ndown(17)";
    python()->run(source.c_str());
  }
  state.KeepRunning();
}
BENCHMARK(PythonNew)->UseManualTime()->Iterations(20'000);

[[gnu::noinline]] void native_below(int n, benchmark::State& state) {
  if (n > 0) {
    native_below(n - 1, state);
    asm volatile("");  // not a tail call
    return;
  }
  void* addresses[128];
  for (auto _ : state) benchmark::DoNotOptimize(capture_native(addresses, 128));
}
void NativeKnown(benchmark::State& state) {
  native_below(static_cast<int>(state.range(0)), state);
}
BENCHMARK(NativeKnown)->Arg(10)->Arg(20)->Arg(60);

void Symbolize(benchmark::State& state) {
  void* addresses[64];
  const size_t count = capture_native(addresses, 64);
  for (auto _ : state) benchmark::DoNotOptimize(symbolize(addresses, count, state.range(0) != 0));
}
BENCHMARK(Symbolize)->ArgName("lines")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace devtrace::stacks

BENCHMARK_MAIN();

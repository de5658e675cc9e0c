// What looking at a launch costs: the whole look-up and check, against a hook that only passes the call on. The kernel
// takes 1, 4 or 16 pointers, or a structure of 1 KiB full of them.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iterator>
#include <vector>

#include "tests/unit/tracker/quiet.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"
#include "tracker/launch/kernels.h"
#include "tracker/memory/ownership.h"

namespace memory = devtrace::memory;

namespace {

using namespace devtrace;

constexpr uintptr_t kBase = 0x7300'0000'0000;
constexpr uintptr_t kStep = 64 * 1024;
constexpr size_t kStructure = 1024 / sizeof(uintptr_t);

const char handles[3 + 1] = {};
// `live` allocations, most of them on the device on which the kernels run.
void allocate(size_t live) {
  static size_t have = 0;
  set_platform(test::platform_of_device_0());
  for (; have < live; ++have) memory::ownership::add({kBase + have * kStep, kStep, Device::cuda(0)});
}

const void* handle_of(size_t words) {
  return &handles[words == 1 ? 0 : words == 4 ? 1 : words == 16 ? 2 : 3];
}

void remember_kernel(size_t words) {
  std::vector<device::Parameter> parameters;
  if (words == kStructure)
    parameters.push_back({0, words * sizeof(uintptr_t)});
  else
    for (size_t i = 0; i < words; ++i) parameters.push_back({i * sizeof(uintptr_t), sizeof(uintptr_t)});
  if (!launch::kernels::known(handle_of(words))) launch::kernels::remember(handle_of(words), "kernel", parameters);
}

// The original, and a hook that does nothing else.
[[gnu::noinline]] int original(const void* function, void** parameters) {
  benchmark::DoNotOptimize(function);
  benchmark::DoNotOptimize(parameters);
  return 0;
}
[[gnu::noinline]] int empty_hook(const void* function, void** parameters) {
  return original(function, parameters);
}
[[gnu::noinline]] int hook(const void* function, void** parameters) {
  if (events::wants_launches()) {
    events::Launch launch;
    launch.function = function;
    launch.kernel = launch::kernels::known(function);
    launch.parameters = parameters;
    events::launched(launch);
  }
  return original(function, parameters);
}

template <int (*through)(const void*, void**)>
void launch(benchmark::State& state) {
  const auto words = static_cast<size_t>(state.range(0));
  const bool structure = words == kStructure;
  const auto live = static_cast<size_t>(state.range(1));
  if (state.thread_index() == 0) {
    allocate(live);
    remember_kernel(words);
  }
  thread_state::set_device(0);
  std::vector<uintptr_t> values(words);
  std::vector<void*> parameters;
  for (size_t i = 0; i < words; ++i) {
    values[i] = kBase + (i * 7919 + static_cast<size_t>(state.thread_index())) % live * kStep + 64;
    if (!structure || i == 0) parameters.push_back(&values[i]);
  }
  // As in a list of tensors: pointers, then sizes, then small numbers of which several share a word.
  if (state.range(2) != 0)
    for (size_t i = words / 2; i < words; ++i) values[i] = i < words * 3 / 4 ? 1024 + i : 0x0003'0002'0001'0000 + i;
  for (auto _ : state) benchmark::DoNotOptimize(through(handle_of(words), parameters.data()));
  state.SetItemsProcessed(state.iterations());
}

void shapes(benchmark::internal::Benchmark* one) {
  for (const int live : {10, 1'000'000})
    for (const int words : {1, 4, 16, static_cast<int>(kStructure)}) one->Args({words, live, 0});
  for (const int words : {16, static_cast<int>(kStructure)}) one->Args({words, 1'000'000, 1});
  one->ArgNames({"words", "live", "numbers"});
}
BENCHMARK(launch<empty_hook>)->Apply(shapes);
BENCHMARK(launch<hook>)->Apply(shapes);
BENCHMARK(launch<empty_hook>)->Args({4, 1'000'000, 0})->Threads(64)->UseRealTime();
BENCHMARK(launch<hook>)->Args({4, 1'000'000, 0})->Threads(64)->UseRealTime();

}  // namespace

// A call of cuBLAS's with three matrices and two scalars of the host.
void library_call(benchmark::State& state) {
  allocate(static_cast<size_t>(state.range(0)));
  const float scalars[2] = {};
  constexpr events::LibraryHandle kHandle = 0x5500'0000'1000;
  events::library_handle_made(kHandle, "cublasCreate");
  const auto at = [](size_t number) { return reinterpret_cast<const void*>(kBase + number * kStep); };
  const void* const arguments[] = {nullptr, nullptr, nullptr, nullptr,     nullptr, &scalars[0], at(0),
                                   nullptr, at(1),   nullptr, &scalars[1], at(2),   nullptr};
  for (auto _ : state) {
    const events::LibraryCall call{"cublasSgemm", kHandle, arguments, std::size(arguments), nullptr};
    benchmark::DoNotOptimize(events::library_called(call));
  }
  if (memory::ownership::extent_at(kBase)->device != Device::cuda(0))
    state.SkipWithError("the allocation is not there");
}
BENCHMARK(library_call)->Arg(10)->Arg(1000000);

BENCHMARK_MAIN();

// A guard begins by c10::cuda::ExchangeDevice. So does torch.cuda.device, which lasts for many lines of Python's: that
// is called from libtorch_python. Who called ExchangeDevice stands on the stack, always as far from where it calls
// cudaSetDevice. How far is found out once.
#include "tracker/stacks/native/device_guard.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "binary/elf/loaded.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks::caller {

constinit detail::Exchange detail::exchange{};
constinit std::atomic<bool> detail::known{false};

namespace {

using detail::exchange, detail::known;

// What is found out so far. A word may have the right value by chance: all that have it each time are kept.
constexpr int kCalls = 4;
constexpr size_t kWords = 64;
constinit std::atomic<bool> learning{false};
constinit uint64_t candidates = ~uint64_t{0};
constinit int calls = 0;
constexpr int kMostAttempts = 200;  // of programs that have Python and no PyTorch
constinit std::atomic<int> attempts{0};

struct Extent {
  uintptr_t begin = 0, bytes = 0;
};

// ExchangeDevice's code, and all of libtorch_python.
struct Code {
  Extent exchange, python;
};
Code find_code() {
  Code code;
  elf::for_each_object([&](const elf::Object& object) {
    if (object.file() == "libtorch_python.so") code.python = {object.begin, object.end - object.begin};
    if (object.file() == "libc10_cuda.so")
      if (const auto symbol = elf::Loaded(object).symbol("_ZN3c104cuda14ExchangeDeviceEa"))
        code.exchange = {object.base + symbol->st_value, symbol->st_size};
    return code.python.begin != 0 && code.exchange.begin != 0;
  });
  return code;
}

void learn(uintptr_t goes_on, const uintptr_t* stack) {
  const Code code = find_code();
  if (code.python.begin == 0 || goes_on - code.exchange.begin >= code.exchange.bytes) return;
  void* addresses[kWords];
  const size_t count = capture_native(addresses, kWords);
  uintptr_t caller = 0;
  for (size_t i = 0; i + 1 < count; ++i)
    if (reinterpret_cast<uintptr_t>(addresses[i]) == goes_on) caller = reinterpret_cast<uintptr_t>(addresses[i + 1]);
  if (caller == 0) return;
  if (exchange.goes_on != goes_on) candidates = ~uint64_t{0}, calls = 0;
  uint64_t same = 0;
  for (size_t word = 0; word < kWords; ++word) same |= uint64_t{stack[word] == caller} << word;
  candidates &= same;
  exchange.goes_on = goes_on;
  if (++calls < kCalls || __builtin_popcountll(candidates) != 1) return;
  exchange = {goes_on, static_cast<size_t>(__builtin_ctzll(candidates)), code.python.begin, code.python.bytes};
  known.store(true, std::memory_order_release);
}

}  // namespace

void detail::learn_guard(uintptr_t goes_on, const uintptr_t* stack) {
  if (attempts.fetch_add(1, std::memory_order_relaxed) >= kMostAttempts || learning.exchange(true)) return;
  if (!known.load(std::memory_order_relaxed)) learn(goes_on, stack);
  learning.store(false, std::memory_order_release);
}

}  // namespace devtrace::stacks::caller

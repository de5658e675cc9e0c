// Which calls of cudaSetDevice are those of PyTorch's device guards.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace devtrace::stacks::caller {

namespace detail {
struct Exchange {
  uintptr_t goes_on = 0;  // where ExchangeDevice does when cudaSetDevice comes back
  size_t word = 0;        // which one, from its stack pointer on, says where its caller goes on
  uintptr_t python = 0;   // where libtorch_python lies
  size_t python_bytes = 0;
};
[[gnu::visibility("hidden")]] extern Exchange exchange;
[[gnu::visibility("hidden")]] extern std::atomic<bool> known;
void learn_guard(uintptr_t goes_on, const uintptr_t* stack);
}  // namespace detail

// Hot. Whether a guard of PyTorch's that begins has called cudaSetDevice's hook, whose frame that is; null: no. It puts
// the device back before the line of Python's goes on that runs now. The first few guards of a process are not
// recognized. Takes no lock but for those.
inline bool is_device_guard(const void* hook) {
  if (!hook) return false;
  const auto* const frame = static_cast<const uintptr_t*>(hook);
  const uintptr_t goes_on = frame[1], *const stack = frame + 2;
  const detail::Exchange& exchange = detail::exchange;
  if (detail::known.load(std::memory_order_acquire)) [[likely]]
    return goes_on == exchange.goes_on && stack[exchange.word] - exchange.python >= exchange.python_bytes;
  detail::learn_guard(goes_on, stack);
  return false;
}

}  // namespace devtrace::stacks::caller

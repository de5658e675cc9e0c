#include "simulate/values/asynchronous.h"

#include <atomic>

namespace devtrace::simulate::values {
namespace {

std::atomic<const Asynchronous*> g_functions{nullptr};
std::atomic<void (*)()> g_wait{nullptr};

}  // namespace

const Asynchronous* asynchronous() {
  return g_functions.load(std::memory_order_acquire);
}

void set_asynchronous(const Asynchronous* functions) {
  g_functions.store(functions, std::memory_order_release);
}

void wait_for_streams() {
  if (const auto wait = g_wait.load(std::memory_order_acquire)) wait();
}

void set_wait_for_streams(void (*wait)()) {
  g_wait.store(wait, std::memory_order_release);
}

}  // namespace devtrace::simulate::values

// For the kernels of torch/.
extern "C" __attribute__((visibility("default"))) const devtrace::simulate::values::Asynchronous*
devtrace_sim_asynchronous() {
  return devtrace::simulate::values::asynchronous();
}

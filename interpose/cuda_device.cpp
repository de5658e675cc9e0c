#include "interpose/cuda_device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>

#include "interpose/original.h"
#include "tracker/current_thread.h"

namespace devtrace::interpose {
namespace {

// A function of a library that may not be loaded yet: looked for until it is found.
template <class Function>
class Question {
 public:
  constexpr Question(const char* library, const char* symbol) : library_(library), symbol_(symbol) {}
  Function get() {
    void* found = found_.load(std::memory_order_relaxed);
    if (!found) found_.store(found = find_in_library(library_, symbol_), std::memory_order_relaxed);
    return reinterpret_cast<Function>(found);
  }

 private:
  const char* library_;
  const char* symbol_;
  std::atomic<void*> found_{nullptr};
};

constinit Question<decltype(&::cuCtxGetDevice)> context_device("libcuda.so", "cuCtxGetDevice");
constinit Question<cudaError_t (*)(int*)> runtime_device("libcudart.so", "cudaGetDevice");
constinit Question<decltype(&::cuPointerGetAttribute)> pointer_attribute("libcuda.so", "cuPointerGetAttribute");

}  // namespace

// The driver comes first: it answers only once somebody has initialised it, and leaves no error behind. Before a thread
// has a context the runtime knows which one it would take.
int exact_current_device() {
  CUdevice device = -1;
  if (const auto ask = context_device.get(); ask && ask(&device) == CUDA_SUCCESS) return device;
  const int known = current_thread::device();
  if (known >= 0) return known;
  const auto ask = runtime_device.get();
  return ask && context_device.get() && ask(&device) == cudaSuccess ? device : -1;
}

Device current_device() {
  int ordinal = current_thread::device();
  if (ordinal < 0) ordinal = exact_current_device();
  return ordinal >= 0 ? Device::cuda(ordinal) : Device{};
}

Device owner(uint64_t address) {
  int ordinal = -1;
  const auto ask = pointer_attribute.get();
  if (ask && ask(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS && ordinal >= 0)
    return Device::cuda(ordinal);
  return current_device();
}

}  // namespace devtrace::interpose

#include "interpose/cuda/current_device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/linking/lazy_symbol.h"
#include "interpose/linking/original.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"

namespace devtrace::interpose {
namespace {

constinit LazySymbol<decltype(&::cuCtxGetDevice)> context_device("libcuda.so", "cuCtxGetDevice");
constinit LazySymbol<decltype(&::cuCtxGetDevice_v2)> any_context_device("libcuda.so", "cuCtxGetDevice_v2");
constinit LazySymbol<decltype(&::cuCtxPushCurrent_v2)> push_context("libcuda.so", "cuCtxPushCurrent_v2");
constinit LazySymbol<decltype(&::cuCtxPopCurrent_v2)> pop_context("libcuda.so", "cuCtxPopCurrent_v2");
constinit LazySymbol<decltype(&::cuMemGetAddressRange_v2)> address_range("libcuda.so", "cuMemGetAddressRange_v2");
constinit LazySymbol<decltype(&::cuStreamGetCtx)> stream_context("libcuda.so", "cuStreamGetCtx");
constinit LazySymbol<cudaError_t (*)(int*)> runtime_device("libcudart.so", "cudaGetDevice");
constinit LazySymbol<decltype(&::cuPointerGetAttribute)> pointer_attribute("libcuda.so", "cuPointerGetAttribute");

constinit LazySymbol<decltype(&::cuDeviceGetAttribute)> attribute_of_device("libcuda.so", "cuDeviceGetAttribute");

}  // namespace

// The driver comes first: it answers only once somebody has initialised it, and leaves no error behind. Before a thread
// has a context the runtime knows which one it would take.
int exact_current_device() {
  CUdevice device = -1;
  if (const auto ask = context_device.get(); ask && ask(&device) == CUDA_SUCCESS) return device;
  const int known = thread_state::device();
  if (known >= 0) return known;
  const auto ask = runtime_device.get();
  return ask && context_device.get() && ask(&device) == cudaSuccess ? device : -1;
}

Device current_device() {
  int ordinal = thread_state::device();
  if (ordinal < 0) ordinal = exact_current_device();
  return ordinal >= 0 ? Device::cuda(ordinal) : Device{};
}

Device exact_owner(uint64_t address) {
  int ordinal = -1;
  const auto ask = pointer_attribute.get();
  return ask && ask(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS && ordinal >= 0
             ? Device::cuda(ordinal)
             : Device{};
}

Device owner(uint64_t address) {
  const Device known = exact_owner(address);
  return known.known() ? known : current_device();
}

void emit_opened(uint64_t address) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const auto ask = address_range.get();
  if (ask && ask(&base, &bytes, address) == CUDA_SUCCESS)
    events::allocated(reinterpret_cast<const void*>(base), bytes, owner(base));
}

bool device_attribute(int device, int attribute, int& value) {
  const auto ask = attribute_of_device.get();
  return ask && device >= 0 && ask(&value, static_cast<CUdevice_attribute>(attribute), device) == CUDA_SUCCESS;
}

int device_of_context(void* context) {
  if (!context) return exact_current_device();
  CUdevice device = -1;
  const auto handle = static_cast<CUcontext>(context);
  static const auto ask_any = any_context_device.get();  // whoever has a context has a driver
  if (ask_any) return ask_any(&device, handle) == CUDA_SUCCESS ? device : -1;
  // Before CUDA 13 only the current one can be asked.
  const auto push = push_context.get();
  const auto pop = pop_context.get();
  const auto ask = context_device.get();
  if (!push || !pop || !ask || push(handle) != CUDA_SUCCESS) return -1;
  if (ask(&device) != CUDA_SUCCESS) device = -1;
  CUcontext popped;
  pop(&popped);
  return device;
}

int device_of_stream(const void* stream) {
  CUcontext context = nullptr;
  const auto ask = stream_context.get();
  if (!ask || ask(static_cast<CUstream>(const_cast<void*>(stream)), &context) != CUDA_SUCCESS) return -1;
  return device_of_context(context);
}

}  // namespace devtrace::interpose

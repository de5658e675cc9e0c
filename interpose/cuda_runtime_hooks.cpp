// CUDA runtime: allocations, copies, the current device. The events are told after the original has succeeded, but for
// copies, which are told before: a move must be known when the copy itself faults.

#include <cuda_runtime_api.h>

#include "interpose/original.h"
#include "tracker/current_thread.h"
#include "tracker/events.h"

using devtrace::Device;
namespace events = devtrace::events;

namespace {

// The device that a just successful allocation went to.
Device current_device() {
  static const auto get_device =
      reinterpret_cast<cudaError_t (*)(int*)>(devtrace::interpose::find_in_library("libcudart.so", "cudaGetDevice"));
  int ordinal = devtrace::current_thread::device();
  if (ordinal >= 0) return Device::cuda(ordinal);
  return get_device && get_device(&ordinal) == cudaSuccess ? Device::cuda(ordinal) : Device{};
}

cudaError_t told(cudaError_t result, void** pointer, size_t bytes) {
  if (result == cudaSuccess && pointer) events::allocated(*pointer, bytes, current_device());
  return result;
}

}  // namespace

// Without an original there is no CUDA runtime in the process, and nobody who could have called.
#define CALL_ORIGINAL(symbol, arguments) \
  (ORIGINAL(symbol) ? ORIGINAL(symbol) arguments : cudaErrorSharedObjectSymbolNotFound)
#define CUDA_HOOK(symbol, parameters)                       \
  extern "C" DEVTRACE_EXPORT cudaError_t symbol parameters; \
  extern "C" cudaError_t symbol parameters

CUDA_HOOK(cudaMalloc, (void** pointer, size_t bytes)) {
  return told(CALL_ORIGINAL(cudaMalloc, (pointer, bytes)), pointer, bytes);
}

CUDA_HOOK(cudaMallocPitch, (void** pointer, size_t* pitch, size_t width, size_t height)) {
  const cudaError_t result = CALL_ORIGINAL(cudaMallocPitch, (pointer, pitch, width, height));
  return told(result, pointer, pitch ? *pitch * height : width * height);
}

#define ALLOCATE_ASYNC(symbol)                                                    \
  CUDA_HOOK(symbol, (void** pointer, size_t bytes, cudaStream_t stream)) {        \
    return told(CALL_ORIGINAL(symbol, (pointer, bytes, stream)), pointer, bytes); \
  }
#define ALLOCATE_FROM_POOL(symbol)                                                             \
  CUDA_HOOK(symbol, (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)) { \
    return told(CALL_ORIGINAL(symbol, (pointer, bytes, pool, stream)), pointer, bytes);        \
  }
#define FREE_ASYNC(symbol)                                  \
  CUDA_HOOK(symbol, (void* pointer, cudaStream_t stream)) { \
    events::freed(pointer);                                 \
    return CALL_ORIGINAL(symbol, (pointer, stream));        \
  }
ALLOCATE_ASYNC(cudaMallocAsync)
ALLOCATE_ASYNC(cudaMallocAsync_ptsz)
ALLOCATE_FROM_POOL(cudaMallocFromPoolAsync)
ALLOCATE_FROM_POOL(cudaMallocFromPoolAsync_ptsz)
FREE_ASYNC(cudaFreeAsync)
FREE_ASYNC(cudaFreeAsync_ptsz)

// Before the original: afterwards another thread may already have been given the same address.
CUDA_HOOK(cudaFree, (void* pointer)) {
  events::freed(pointer);
  return CALL_ORIGINAL(cudaFree, (pointer));
}

CUDA_HOOK(cudaSetDevice, (int device)) {
  const cudaError_t result = CALL_ORIGINAL(cudaSetDevice, (device));
  if (result == cudaSuccess) events::device_changed(device);
  return result;
}

#define COPY(symbol)                                                                   \
  CUDA_HOOK(symbol, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind)) { \
    events::copied(to, from, bytes);                                                   \
    return CALL_ORIGINAL(symbol, (to, from, bytes, kind));                             \
  }
#define COPY_ASYNC(symbol)                                                                                  \
  CUDA_HOOK(symbol, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)) { \
    events::copied(to, from, bytes);                                                                        \
    return CALL_ORIGINAL(symbol, (to, from, bytes, kind, stream));                                          \
  }
#define COPY_PEER(symbol)                                                                         \
  CUDA_HOOK(symbol, (void* to, int to_device, const void* from, int from_device, size_t bytes)) { \
    events::copied(to, from, bytes);                                                              \
    return CALL_ORIGINAL(symbol, (to, to_device, from, from_device, bytes));                      \
  }
#define COPY_PEER_ASYNC(symbol)                                                                                        \
  CUDA_HOOK(symbol, (void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream)) { \
    events::copied(to, from, bytes);                                                                                   \
    return CALL_ORIGINAL(symbol, (to, to_device, from, from_device, bytes, stream));                                   \
  }
COPY(cudaMemcpy)
COPY(cudaMemcpy_ptds)
COPY_ASYNC(cudaMemcpyAsync)
COPY_ASYNC(cudaMemcpyAsync_ptsz)
COPY_PEER(cudaMemcpyPeer)
COPY_PEER(cudaMemcpyPeer_ptds)
COPY_PEER_ASYNC(cudaMemcpyPeerAsync)
COPY_PEER_ASYNC(cudaMemcpyPeerAsync_ptsz)

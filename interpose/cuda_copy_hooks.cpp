// Every way to copy. What is copied is told before the original is called: a move must be known when the copy itself
// faults.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda_hook.h"
#include "tracker/events.h"

using devtrace::events::Copy;
using devtrace::events::Direction;
using devtrace::interpose::Nested;
namespace events = devtrace::events;

namespace {

Direction stated(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return Direction::host_to_host;
    case cudaMemcpyHostToDevice:
      return Direction::host_to_device;
    case cudaMemcpyDeviceToHost:
      return Direction::device_to_host;
    case cudaMemcpyDeviceToDevice:
      return Direction::device_to_device;
    default:
      return Direction::unstated;
  }
}

void tell(const Nested& nested, const Copy& copy) {
  if (!nested.inner()) events::copied(copy);
}

}  // namespace

#define COPY(symbol)                                                                                        \
  RUNTIME_HOOK(symbol, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind)) {                   \
    const Nested nested;                                                                                    \
    tell(nested, {.to = to, .from = from, .bytes = bytes, .direction = stated(kind), .function = #symbol}); \
    return CALL_RUNTIME(symbol, (to, from, bytes, kind));                                                   \
  }
COPY(cudaMemcpy)
COPY(cudaMemcpy_ptds)

#define COPY_ASYNC(symbol)                                                                                            \
  RUNTIME_HOOK(symbol, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)) {        \
    const Nested nested;                                                                                              \
    tell(nested,                                                                                                      \
         {.to = to, .from = from, .bytes = bytes, .direction = stated(kind), .stream = stream, .function = #symbol}); \
    return CALL_RUNTIME(symbol, (to, from, bytes, kind, stream));                                                     \
  }
COPY_ASYNC(cudaMemcpyAsync)
COPY_ASYNC(cudaMemcpyAsync_ptsz)

#define COPY_PEER(symbol)                                                                            \
  RUNTIME_HOOK(symbol, (void* to, int to_device, const void* from, int from_device, size_t bytes)) { \
    const Nested nested;                                                                             \
    tell(nested, {.to = to,                                                                          \
                  .from = from,                                                                      \
                  .bytes = bytes,                                                                    \
                  .to_device = to_device,                                                            \
                  .from_device = from_device,                                                        \
                  .function = #symbol});                                                             \
    return CALL_RUNTIME(symbol, (to, to_device, from, from_device, bytes));                          \
  }
COPY_PEER(cudaMemcpyPeer)
COPY_PEER(cudaMemcpyPeer_ptds)

#define COPY_PEER_ASYNC(symbol)                                                                                   \
  RUNTIME_HOOK(symbol,                                                                                            \
               (void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream)) { \
    const Nested nested;                                                                                          \
    tell(nested, {.to = to,                                                                                       \
                  .from = from,                                                                                   \
                  .bytes = bytes,                                                                                 \
                  .to_device = to_device,                                                                         \
                  .from_device = from_device,                                                                     \
                  .stream = stream,                                                                               \
                  .function = #symbol});                                                                          \
    return CALL_RUNTIME(symbol, (to, to_device, from, from_device, bytes, stream));                               \
  }
COPY_PEER_ASYNC(cudaMemcpyPeerAsync)
COPY_PEER_ASYNC(cudaMemcpyPeerAsync_ptsz)

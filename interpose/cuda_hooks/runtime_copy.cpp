// Every way to copy through the runtime. What is copied is told before the original is called: a move must be known
// when the copy itself faults. memset is no copy.

#include "interpose/cuda/copy_events.h"
#include "interpose/cuda/current_device.h"

using devtrace::events::Copy;
using devtrace::interpose::as_copy;
using devtrace::interpose::Call;
using devtrace::interpose::current_device;
using devtrace::interpose::declared_direction;
using devtrace::interpose::emit_copies;
using devtrace::interpose::emit_copy;
namespace events = devtrace::events;

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // programs that call them are none the newer for it

namespace {

// A symbol is the current device's: CUDA looks up its address itself.
Copy to_symbol(const void* symbol, const void* from, size_t bytes, cudaMemcpyKind kind) {
  devtrace::interpose::emit_variable_set(symbol, bytes);
  return {.from = from, .bytes = bytes, .direction = declared_direction(kind), .to_device = current_device().index};
}
Copy from_symbol(void* to, size_t bytes, cudaMemcpyKind kind) {
  return {.to = to, .bytes = bytes, .direction = declared_direction(kind), .from_device = current_device().index};
}

}  // namespace

#define COPY(...) COPY_HOOK(RUNTIME, __VA_ARGS__)
#define COPY_ASYNC(...) COPY_HOOK_ASYNC(RUNTIME, __VA_ARGS__)
#define COPY_BOTH(...) COPY_HOOKS(RUNTIME, __VA_ARGS__)
#define COPY_BOTH_ASYNC(...) COPY_HOOKS_ASYNC(RUNTIME, __VA_ARGS__)

COPY_BOTH(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind), (to, from, bytes, kind),
          Copy{.to = to, .from = from, .bytes = bytes, .direction = declared_direction(kind)})
COPY_BOTH_ASYNC(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                (to, from, bytes, kind, stream),
                Copy{.to = to, .from = from, .bytes = bytes, .direction = declared_direction(kind)})
COPY(cudaMemcpyPeer, (void* to, int to_device, const void* from, int from_device, size_t bytes),
     (to, to_device, from, from_device, bytes),
     Copy{.to = to, .from = from, .bytes = bytes, .to_device = to_device, .from_device = from_device})
COPY_ASYNC(cudaMemcpyPeerAsync,
           (void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream),
           (to, to_device, from, from_device, bytes, stream),
           Copy{.to = to, .from = from, .bytes = bytes, .to_device = to_device, .from_device = from_device})
COPY_BOTH(cudaMemcpy2D,
          (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
           cudaMemcpyKind kind),
          (to, to_pitch, from, from_pitch, width, height, kind),
          Copy{.to = to, .from = from, .bytes = width * height, .direction = declared_direction(kind)})
COPY_BOTH_ASYNC(cudaMemcpy2DAsync,
                (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind, cudaStream_t stream),
                (to, to_pitch, from, from_pitch, width, height, kind, stream),
                Copy{.to = to, .from = from, .bytes = width * height, .direction = declared_direction(kind)})

// One end is an array.
COPY_BOTH(cudaMemcpy2DToArray,
          (cudaArray_t to, size_t x, size_t y, const void* from, size_t from_pitch, size_t width, size_t height,
           cudaMemcpyKind kind),
          (to, x, y, from, from_pitch, width, height, kind),
          Copy{.from = from, .bytes = width * height, .direction = declared_direction(kind)})
COPY_BOTH_ASYNC(cudaMemcpy2DToArrayAsync,
                (cudaArray_t to, size_t x, size_t y, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind, cudaStream_t stream),
                (to, x, y, from, from_pitch, width, height, kind, stream),
                Copy{.from = from, .bytes = width * height, .direction = declared_direction(kind)})
COPY_BOTH(cudaMemcpy2DFromArray,
          (void* to, size_t to_pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
           cudaMemcpyKind kind),
          (to, to_pitch, from, x, y, width, height, kind),
          Copy{.to = to, .bytes = width * height, .direction = declared_direction(kind)})
COPY_BOTH_ASYNC(cudaMemcpy2DFromArrayAsync,
                (void* to, size_t to_pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                 cudaMemcpyKind kind, cudaStream_t stream),
                (to, to_pitch, from, x, y, width, height, kind, stream),
                Copy{.to = to, .bytes = width * height, .direction = declared_direction(kind)})
COPY_BOTH(cudaMemcpyToArray, (cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind),
          (to, x, y, from, bytes, kind), Copy{.from = from, .bytes = bytes, .direction = declared_direction(kind)})
COPY_BOTH_ASYNC(cudaMemcpyToArrayAsync,
                (cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream),
                (to, x, y, from, bytes, kind, stream),
                Copy{.from = from, .bytes = bytes, .direction = declared_direction(kind)})
COPY_BOTH(cudaMemcpyFromArray,
          (void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind),
          (to, from, x, y, bytes, kind), Copy{.to = to, .bytes = bytes, .direction = declared_direction(kind)})
COPY_BOTH_ASYNC(cudaMemcpyFromArrayAsync,
                (void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream),
                (to, from, x, y, bytes, kind, stream),
                Copy{.to = to, .bytes = bytes, .direction = declared_direction(kind)})

// One end is a variable of the program.
COPY_BOTH(cudaMemcpyToSymbol, (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
          (symbol, from, bytes, offset, kind), to_symbol(symbol, from, bytes, kind))
COPY_BOTH_ASYNC(cudaMemcpyToSymbolAsync,
                (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                 cudaStream_t stream),
                (symbol, from, bytes, offset, kind, stream), to_symbol(symbol, from, bytes, kind))
COPY_BOTH(cudaMemcpyFromSymbol, (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
          (to, symbol, bytes, offset, kind), from_symbol(to, bytes, kind))
COPY_BOTH_ASYNC(cudaMemcpyFromSymbolAsync,
                (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
                (to, symbol, bytes, offset, kind, stream), from_symbol(to, bytes, kind))

// Described by a structure.
COPY_BOTH(cudaMemcpy3D, (const cudaMemcpy3DParms* copy), (copy), copy ? as_copy(*copy) : Copy{})
COPY_BOTH_ASYNC(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* copy, cudaStream_t stream), (copy, stream),
                copy ? as_copy(*copy) : Copy{})
COPY_BOTH(cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms* copy), (copy), copy ? as_copy(*copy) : Copy{})
COPY_BOTH_ASYNC(cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* copy, cudaStream_t stream), (copy, stream),
                copy ? as_copy(*copy) : Copy{})

// Many at once. CUDA 12's have an argument more than CUDA 13's, under the same names: the hooks take as many arguments
// as either version and hand on all. One that the original does not have is looked at by nobody.
#define BATCH(symbol, name)                                                                                       \
  RUNTIME_HOOK_AS(symbol, name,                                                                                   \
                  (void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes, \
                   size_t* indices, size_t attribute_count, void* eighth, void* ninth)) {                         \
    const Call call;                                                                                              \
    if (call.before() && events::wants_copies() && to && from && bytes)                                           \
      for (size_t i = 0; i < count; ++i)                                                                          \
        emit_copy(call, Copy{.to = to[i], .from = from[i], .bytes = bytes[i]}, API_NAME(symbol),                  \
                  OLDER_THAN(13000, symbol, name) ? ninth : eighth, count);                                       \
    return CALL_RUNTIME_AS(symbol, name,                                                                          \
                           (to, from, bytes, count, attributes, indices, attribute_count, eighth, ninth));        \
  }
BATCH(cudaMemcpyBatchAsync, batch)
BATCH(cudaMemcpyBatchAsync_ptsz, batch_per_thread)

#define BATCH_3D(symbol, name)                                                                            \
  RUNTIME_HOOK_AS(symbol, name,                                                                           \
                  (size_t count, cudaMemcpy3DBatchOp * copies, void* third, void* fourth, void* fifth)) { \
    const Call call;                                                                                      \
    emit_copies(call, copies, count, API_NAME(symbol), OLDER_THAN(13000, symbol, name) ? fifth : fourth); \
    return CALL_RUNTIME_AS(symbol, name, (count, copies, third, fourth, fifth));                          \
  }
BATCH_3D(cudaMemcpy3DBatchAsync, batch_3d)
BATCH_3D(cudaMemcpy3DBatchAsync_ptsz, batch_3d_per_thread)

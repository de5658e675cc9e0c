// Every way to copy through the driver. Told before the original is called, like the runtime's, which come here too and
// have then told already. What has no _v2 beside one that has takes 32-bit addresses: no 64-bit program can call it.

#include "interpose/cuda/copy_events.h"
#include "interpose/cuda/current_device.h"

using devtrace::events::Copy;
using devtrace::events::Direction;
using devtrace::interpose::as_copy;
using devtrace::interpose::Call;
using devtrace::interpose::device_of_context;
using devtrace::interpose::emit_copies;
using devtrace::interpose::emit_copy;
using devtrace::interpose::pointer;
namespace events = devtrace::events;

#define COPY_BOTH(...) COPY_HOOKS(DRIVER, __VA_ARGS__)
#define COPY_BOTH_ASYNC(...) COPY_HOOKS_ASYNC(DRIVER, __VA_ARGS__)

COPY_BOTH(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
          Copy{.to = pointer(to), .from = pointer(from), .bytes = bytes})
COPY_BOTH_ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
                (to, from, bytes, stream), Copy{.to = pointer(to), .from = pointer(from), .bytes = bytes})
COPY_BOTH(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t bytes), (to, from, bytes),
          Copy{.to = pointer(to), .from = from, .bytes = bytes, .direction = Direction::host_to_device})
COPY_BOTH_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
                (to, from, bytes, stream),
                Copy{.to = pointer(to), .from = from, .bytes = bytes, .direction = Direction::host_to_device})
COPY_BOTH(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t bytes), (to, from, bytes),
          Copy{.to = to, .from = pointer(from), .bytes = bytes, .direction = Direction::device_to_host})
COPY_BOTH_ASYNC(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
                (to, from, bytes, stream),
                Copy{.to = to, .from = pointer(from), .bytes = bytes, .direction = Direction::device_to_host})
COPY_BOTH(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
          Copy{.to = pointer(to), .from = pointer(from), .bytes = bytes, .direction = Direction::device_to_device})
COPY_BOTH_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
                (to, from, bytes, stream),
                Copy{
                    .to = pointer(to), .from = pointer(from), .bytes = bytes, .direction = Direction::device_to_device})
COPY_BOTH(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
          (to, to_context, from, from_context, bytes),
          Copy{.to = pointer(to),
               .from = pointer(from),
               .bytes = bytes,
               .to_device = device_of_context(to_context),
               .from_device = device_of_context(from_context)})
COPY_BOTH_ASYNC(cuMemcpyPeerAsync,
                (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                 CUstream stream),
                (to, to_context, from, from_context, bytes, stream),
                Copy{.to = pointer(to),
                     .from = pointer(from),
                     .bytes = bytes,
                     .to_device = device_of_context(to_context),
                     .from_device = device_of_context(from_context)})

// One end is an array.
COPY_BOTH(cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes), (to, offset, from, bytes),
          Copy{.from = pointer(from), .bytes = bytes, .direction = Direction::device_to_device})
COPY_BOTH(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes),
          Copy{.to = pointer(to), .bytes = bytes, .direction = Direction::device_to_device})
COPY_BOTH(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void* from, size_t bytes), (to, offset, from, bytes),
          Copy{.from = from, .bytes = bytes, .direction = Direction::host_to_device})
COPY_BOTH_ASYNC(cuMemcpyHtoAAsync_v2, (CUarray to, size_t offset, const void* from, size_t bytes, CUstream stream),
                (to, offset, from, bytes, stream),
                Copy{.from = from, .bytes = bytes, .direction = Direction::host_to_device})
COPY_BOTH(cuMemcpyAtoH_v2, (void* to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes),
          Copy{.to = to, .bytes = bytes, .direction = Direction::device_to_host})
COPY_BOTH_ASYNC(cuMemcpyAtoHAsync_v2, (void* to, CUarray from, size_t offset, size_t bytes, CUstream stream),
                (to, from, offset, bytes, stream),
                Copy{.to = to, .bytes = bytes, .direction = Direction::device_to_host})

// Described by a structure.
COPY_BOTH(cuMemcpy2D_v2, (const CUDA_MEMCPY2D* copy), (copy), copy ? as_copy(*copy) : Copy{})
COPY_BOTH_ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* copy, CUstream stream), (copy, stream),
                copy ? as_copy(*copy) : Copy{})
COPY_BOTH(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D* copy), (copy), copy ? as_copy(*copy) : Copy{})
COPY_BOTH(cuMemcpy3D_v2, (const CUDA_MEMCPY3D* copy), (copy), copy ? as_copy(*copy) : Copy{})
COPY_BOTH_ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* copy, CUstream stream), (copy, stream),
                copy ? as_copy(*copy) : Copy{})
COPY_BOTH(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER* copy), (copy), copy ? as_copy(*copy) : Copy{})
COPY_BOTH_ASYNC(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream), (copy, stream),
                copy ? as_copy(*copy) : Copy{})

// Many at once; CUDA 12's also say which one failed.
#define BATCH(symbol, parameters, arguments)                                                                       \
  DRIVER_HOOK(symbol, parameters) {                                                                                \
    const Call call;                                                                                               \
    if (call.before() && events::wants_copies() && to && from && bytes)                                            \
      for (size_t i = 0; i < count; ++i)                                                                           \
        emit_copy(call, Copy{.to = pointer(to[i]), .from = pointer(from[i]), .bytes = bytes[i]}, API_NAME(symbol), \
                  stream, count);                                                                                  \
    return CALL_DRIVER(symbol, arguments);                                                                         \
  }
#define BATCH_12(symbol)                                                                                      \
  BATCH(symbol,                                                                                               \
        (CUdeviceptr * to, CUdeviceptr * from, size_t * bytes, size_t count, CUmemcpyAttributes * attributes, \
         size_t * indices, size_t attribute_count, size_t * failed, CUstream stream),                         \
        (to, from, bytes, count, attributes, indices, attribute_count, failed, stream))
#define BATCH_13(symbol)                                                                                      \
  BATCH(symbol,                                                                                               \
        (CUdeviceptr * to, CUdeviceptr * from, size_t * bytes, size_t count, CUmemcpyAttributes * attributes, \
         size_t * indices, size_t attribute_count, CUstream stream),                                          \
        (to, from, bytes, count, attributes, indices, attribute_count, stream))
BATCH_12(cuMemcpyBatchAsync)
BATCH_12(cuMemcpyBatchAsync_ptsz)
BATCH_13(cuMemcpyBatchAsync_v2)
BATCH_13(cuMemcpyBatchAsync_v2_ptsz)

#define BATCH_3D(symbol, parameters, arguments)                 \
  DRIVER_HOOK(symbol, parameters) {                             \
    const Call call;                                            \
    emit_copies(call, copies, count, API_NAME(symbol), stream); \
    return CALL_DRIVER(symbol, arguments);                      \
  }
#define BATCH_3D_12(symbol)                                                                                        \
  BATCH_3D(                                                                                                        \
      symbol,                                                                                                      \
      (size_t count, CUDA_MEMCPY3D_BATCH_OP * copies, size_t * failed, unsigned long long flags, CUstream stream), \
      (count, copies, failed, flags, stream))
#define BATCH_3D_13(symbol)                                                                                    \
  BATCH_3D(symbol, (size_t count, CUDA_MEMCPY3D_BATCH_OP * copies, unsigned long long flags, CUstream stream), \
           (count, copies, flags, stream))
BATCH_3D_12(cuMemcpy3DBatchAsync)
BATCH_3D_12(cuMemcpy3DBatchAsync_ptsz)
BATCH_3D_13(cuMemcpy3DBatchAsync_v2)
BATCH_3D_13(cuMemcpy3DBatchAsync_v2_ptsz)

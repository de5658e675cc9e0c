// What a copy moves, read out of the structures in which CUDA's functions take it. An end that is an array has no
// address, for an array is opaque: it is null.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda_hook.h"
#include "tracker/events.h"

namespace devtrace::interpose {

events::Direction stated(cudaMemcpyKind kind);

events::Copy described(const cudaMemcpy3DParms& copy);
events::Copy described(const cudaMemcpy3DPeerParms& copy);
events::Copy described(const cudaMemcpy3DBatchOp& copy);
events::Copy described(const CUDA_MEMCPY2D& copy);
events::Copy described(const CUDA_MEMCPY3D& copy);
events::Copy described(const CUDA_MEMCPY3D_PEER& copy);
events::Copy described(const CUDA_MEMCPY3D_BATCH_OP& copy);

// Tells of a copy, unless an outer hook has.
inline void tell(const Nested& nested, events::Copy copy, const char* function, const void* stream = nullptr) {
  if (nested.inner()) return;
  copy.function = function;
  copy.stream = stream;
  events::copied(copy);
}

// The same for each of a batch's.
template <class Operation>
void tell_batch(const Nested& nested, const Operation* operations, size_t count, const char* function,
                const void* stream) {
  if (!nested.inner() && events::wants_copies())
    for (size_t i = 0; operations && i < count; ++i) tell(nested, described(operations[i]), function, stream);
}

}  // namespace devtrace::interpose

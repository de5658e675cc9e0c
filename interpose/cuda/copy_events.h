// What a copy moves, read out of the structures in which CUDA's functions take it. An end that is an array has no
// address, for an array is opaque: it is null.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda/graph_events.h"
#include "interpose/cuda/hook.h"
#include "tracker/events.h"

namespace devtrace::interpose {

events::Direction declared_direction(cudaMemcpyKind kind);

events::Copy as_copy(const cudaMemcpy3DParms& copy);
events::Copy as_copy(const cudaMemcpy3DPeerParms& copy);
events::Copy as_copy(const cudaMemcpy3DBatchOp& copy);
events::Copy as_copy(const CUDA_MEMCPY2D& copy);
events::Copy as_copy(const CUDA_MEMCPY3D& copy);
events::Copy as_copy(const CUDA_MEMCPY3D_PEER& copy);
events::Copy as_copy(const CUDA_MEMCPY3D_BATCH_OP& copy);

// Tells where a variable of the program gets a value on the current device, in a rehearsal: its driver alone says which
// kernel reads it on another one.
void emit_variable_set(const void* symbol, size_t bytes);

// Tells of a copy, unless an outer hook has.
inline void emit_copy(const Call& call, events::Copy copy, const char* function, const void* stream = nullptr,
                      size_t copies_of_call = 1) {
  if (!call.before()) return;
  copy.function = function;
  copy.correlation_id = call.correlation_id();
  copy.several = copies_of_call > 1;
  copy.stream = stream;
  copy.graph = graph_events::captures(stream);
  events::copied(copy);
}

// What is made of it when the stream is being captured: called after the original has succeeded.
inline void note_captured(const Call& call, const events::Copy& copy, const char*, const void* stream) {
  if (!call.after() || !call.outermost() || !graph_events::captures(stream)) return;
  if (const void* const node = graph_events::captured_node(stream)) events::copy_planned(node, copy);
}
// Nothing that waits can be captured.
inline void note_captured(const Call&, const events::Copy&, const char*) {}

// The same for each of a batch's.
template <class Operation>
void emit_copies(const Call& call, const Operation* operations, size_t count, const char* function,
                 const void* stream) {
  if (call.before() && events::wants_copies())
    for (size_t i = 0; operations && i < count; ++i) emit_copy(call, as_copy(operations[i]), function, stream, count);
}

}  // namespace devtrace::interpose

// A hook of a copy, API being RUNTIME or DRIVER. The last arguments say what moves: it is told before the original is
// called, for a move must be known when the copy itself faults. Those of the asynchronous ones have a parameter
// `stream`.
#define COPY_HOOK(API, symbol, parameters, arguments, ...) \
  COPY_HOOK_EMITTING(API, symbol, parameters, arguments, (call, __VA_ARGS__, API_NAME(symbol)))
#define COPY_HOOK_ASYNC(API, symbol, parameters, arguments, ...) \
  COPY_HOOK_EMITTING(API, symbol, parameters, arguments, (call, __VA_ARGS__, API_NAME(symbol), stream))
#define COPY_HOOK_EMITTING(API, symbol, parameters, arguments, event)                                              \
  API##_HOOK(symbol, parameters) {                                                                                 \
    const devtrace::interpose::Call call;                                                                          \
    if (call.before() && devtrace::events::wants_copies()) devtrace::interpose::emit_copy event;                   \
    const auto result = CALL_##API(symbol, arguments);                                                             \
    if (result == 0 && devtrace::interpose::graph_events::any_capture()) devtrace::interpose::note_captured event; \
    return result;                                                                                                 \
  }
// A function and the one for a default stream of each thread.
#define COPY_HOOKS(API, symbol, ...)  \
  COPY_HOOK(API, symbol, __VA_ARGS__) \
  COPY_HOOK(API, symbol##_ptds, __VA_ARGS__)
#define COPY_HOOKS_ASYNC(API, symbol, ...)  \
  COPY_HOOK_ASYNC(API, symbol, __VA_ARGS__) \
  COPY_HOOK_ASYNC(API, symbol##_ptsz, __VA_ARGS__)

// Streams and events: on which device each was made, and where, for the findings that name one. An event that CUDA did
// not record, for the stream is of another device, is told here.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "tracker/events.h"

using devtrace::interpose::Call;
namespace events = devtrace::events;

namespace {

events::LibraryHandle number_of(const void* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

void on_made(const Call& call, int result, const void* handle, const char* function) {
  if (result == 0 && call.outermost()) events::library_handle_made(number_of(handle), function);
}

void on_destroyed(const Call& call, const void* handle) {
  if (call.before()) events::library_handle_gone(number_of(handle));
}

static_assert(int{cudaErrorInvalidResourceHandle} == int{CUDA_ERROR_INVALID_HANDLE});

// The driver can be asked of the stream: the call has just used the same handle, and has come back.
void on_recorded(const Call& call, int result, const char* function, const void* event, const void* stream) {
  if (result != CUDA_ERROR_INVALID_HANDLE || !call.after() || !call.outermost() || !events::wants_launches()) return;
  const int device = devtrace::interpose::device_of_stream(stream);
  if (device >= 0) events::event_refused({function, number_of(event), &stream, 1, nullptr}, device);
}

}  // namespace

#define MAKES(HOOK, CALL, symbol, parameters, arguments)           \
  HOOK(symbol, parameters) {                                       \
    const Call call;                                               \
    const auto result = CALL(symbol, arguments);                   \
    if (made) on_made(call, int{result}, *made, API_NAME(symbol)); \
    return result;                                                 \
  }
MAKES(RUNTIME_HOOK, CALL_RUNTIME, cudaStreamCreate, (cudaStream_t * made), (made))
MAKES(RUNTIME_HOOK, CALL_RUNTIME, cudaStreamCreateWithFlags, (cudaStream_t * made, unsigned flags), (made, flags))
MAKES(RUNTIME_HOOK, CALL_RUNTIME, cudaStreamCreateWithPriority, (cudaStream_t * made, unsigned flags, int priority),
      (made, flags, priority))
MAKES(RUNTIME_HOOK, CALL_RUNTIME, cudaEventCreate, (cudaEvent_t * made), (made))
MAKES(RUNTIME_HOOK, CALL_RUNTIME, cudaEventCreateWithFlags, (cudaEvent_t * made, unsigned flags), (made, flags))
MAKES(DRIVER_HOOK, CALL_DRIVER, cuStreamCreate, (CUstream * made, unsigned flags), (made, flags))
MAKES(DRIVER_HOOK, CALL_DRIVER, cuStreamCreateWithPriority, (CUstream * made, unsigned flags, int priority),
      (made, flags, priority))
MAKES(DRIVER_HOOK, CALL_DRIVER, cuEventCreate, (CUevent * made, unsigned flags), (made, flags))

#define DESTROYS(HOOK, CALL, symbol, Handle) \
  HOOK(symbol, (Handle handle)) {            \
    const Call call;                         \
    on_destroyed(call, handle);              \
    return CALL(symbol, (handle));           \
  }
DESTROYS(RUNTIME_HOOK, CALL_RUNTIME, cudaStreamDestroy, cudaStream_t)
DESTROYS(RUNTIME_HOOK, CALL_RUNTIME, cudaEventDestroy, cudaEvent_t)
DESTROYS(DRIVER_HOOK, CALL_DRIVER, cuStreamDestroy_v2, CUstream)
DESTROYS(DRIVER_HOOK, CALL_DRIVER, cuEventDestroy_v2, CUevent)

#define RECORDS(HOOK, CALL, symbol, parameters, arguments)           \
  HOOK(symbol, parameters) {                                         \
    const Call call;                                                 \
    const auto result = CALL(symbol, arguments);                     \
    on_recorded(call, int{result}, API_NAME(symbol), event, stream); \
    return result;                                                   \
  }
#define RECORDS_ALONE(HOOK, CALL, symbol, Event, Stream) \
  RECORDS(HOOK, CALL, symbol, (Event event, Stream stream), (event, stream))
#define RECORDS_WITH_FLAGS(HOOK, CALL, symbol, Event, Stream) \
  RECORDS(HOOK, CALL, symbol, (Event event, Stream stream, unsigned flags), (event, stream, flags))
RECORDS_ALONE(RUNTIME_HOOK, CALL_RUNTIME, cudaEventRecord, cudaEvent_t, cudaStream_t)
RECORDS_ALONE(RUNTIME_HOOK, CALL_RUNTIME, cudaEventRecord_ptsz, cudaEvent_t, cudaStream_t)
RECORDS_ALONE(DRIVER_HOOK, CALL_DRIVER, cuEventRecord, CUevent, CUstream)
RECORDS_ALONE(DRIVER_HOOK, CALL_DRIVER, cuEventRecord_ptsz, CUevent, CUstream)
RECORDS_WITH_FLAGS(RUNTIME_HOOK, CALL_RUNTIME, cudaEventRecordWithFlags, cudaEvent_t, cudaStream_t)
RECORDS_WITH_FLAGS(RUNTIME_HOOK, CALL_RUNTIME, cudaEventRecordWithFlags_ptsz, cudaEvent_t, cudaStream_t)
RECORDS_WITH_FLAGS(DRIVER_HOOK, CALL_DRIVER, cuEventRecordWithFlags, CUevent, CUstream)
RECORDS_WITH_FLAGS(DRIVER_HOOK, CALL_DRIVER, cuEventRecordWithFlags_ptsz, CUevent, CUstream)

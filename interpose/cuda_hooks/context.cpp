// Which device a thread works on: everything that can change it, in the runtime and in the driver. Most of it says no
// more than that the device has to be asked for anew. What ends a context also ends the memory that was its.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "tracker/events.h"

using devtrace::interpose::Call;
using devtrace::interpose::exact_current_device;
namespace events = devtrace::events;

// Graphics headers would have to be there for these two libraries' own.
extern "C" {
CUresult CUDAAPI cuGLCtxCreate(CUcontext* context, unsigned flags, CUdevice device);
CUresult CUDAAPI cuGLCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult CUDAAPI cuVDPAUCtxCreate(CUcontext* context, unsigned flags, CUdevice device, unsigned vdpau, void* get);
CUresult CUDAAPI cuVDPAUCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device, unsigned vdpau, void* get);
cudaError_t CUDARTAPI cudaGLSetGLDevice(int device);
cudaError_t CUDARTAPI cudaVDPAUSetVDPAUDevice(int device, unsigned vdpau, void* get);
cudaError_t CUDARTAPI cudaThreadExit(void);
}

namespace {

// Inside the runtime the driver's calls change nothing that the runtime's own hook does not tell. In the fast path
// of a program that sets its device for each launch they would cost it what is remembered.
void ask_anew(const Call& call) {
  if (call.after() && call.outermost()) events::device_changed(-1);
}

}  // namespace

RUNTIME_HOOK(cudaSetDevice, (int device)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaSetDevice, (device));
  if (call.enabled() && result == cudaSuccess) events::device_changed(device, call.frame());
  return result;
}

#define RUNTIME_DEVICE(symbol, parameters, arguments)           \
  RUNTIME_HOOK(symbol, parameters) {                            \
    const Call call;                                            \
    const cudaError_t result = CALL_RUNTIME(symbol, arguments); \
    ask_anew(call);                                             \
    return result;                                              \
  }
RUNTIME_DEVICE(cudaInitDevice, (int device, unsigned device_flags, unsigned flags), (device, device_flags, flags))
RUNTIME_DEVICE(cudaSetValidDevices, (int* devices, int count), (devices, count))
RUNTIME_DEVICE(cudaGLSetGLDevice, (int device), (device))
RUNTIME_DEVICE(cudaVDPAUSetVDPAUDevice, (int device, unsigned vdpau, void* get), (device, vdpau, get))

#define CONTEXT(symbol, parameters, arguments)              \
  DRIVER_HOOK(symbol, parameters) {                         \
    const Call call;                                        \
    const CUresult result = CALL_DRIVER(symbol, arguments); \
    ask_anew(call);                                         \
    return result;                                          \
  }
CONTEXT(cuCtxSetCurrent, (CUcontext context), (context))
CONTEXT(cuCtxPushCurrent, (CUcontext context), (context))
CONTEXT(cuCtxPushCurrent_v2, (CUcontext context), (context))
CONTEXT(cuCtxPopCurrent, (CUcontext * context), (context))
CONTEXT(cuCtxPopCurrent_v2, (CUcontext * context), (context))
CONTEXT(cuCtxAttach, (CUcontext * context, unsigned flags), (context, flags))
CONTEXT(cuCtxCreate, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
CONTEXT(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
CONTEXT(cuCtxCreate_v3,
        (CUcontext * context, CUexecAffinityParam* affinities, int count, unsigned flags, CUdevice device),
        (context, affinities, count, flags, device))
CONTEXT(cuCtxCreate_v4, (CUcontext * context, CUctxCreateParams* parameters, unsigned flags, CUdevice device),
        (context, parameters, flags, device))
CONTEXT(cuGLCtxCreate, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
CONTEXT(cuGLCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device))
CONTEXT(cuVDPAUCtxCreate, (CUcontext * context, unsigned flags, CUdevice device, unsigned vdpau, void* get),
        (context, flags, device, vdpau, get))
CONTEXT(cuVDPAUCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device, unsigned vdpau, void* get),
        (context, flags, device, vdpau, get))

// What ends a context. Afterwards CUDA is asked for every piece of memory on the device whether it is still there: a
// device can have several contexts.
#define ENDS_CONTEXT_OF(ordinal, symbol, parameters, arguments)                               \
  DRIVER_HOOK(symbol, parameters) {                                                           \
    const Call call;                                                                          \
    const int ended = call.value_at_entry([&] { return call.outermost() ? (ordinal) : -1; }); \
    const CUresult result = CALL_DRIVER(symbol, arguments);                                   \
    ask_anew(call);                                                                           \
    if (call.after() && ended >= 0) events::device_reset(ended);                              \
    return result;                                                                            \
  }
using devtrace::interpose::device_of_context;
ENDS_CONTEXT_OF(device_of_context(context), cuCtxDestroy, (CUcontext context), (context))
ENDS_CONTEXT_OF(device_of_context(context), cuCtxDestroy_v2, (CUcontext context), (context))
ENDS_CONTEXT_OF(device_of_context(context), cuCtxDetach, (CUcontext context), (context))
ENDS_CONTEXT_OF(device, cuDevicePrimaryCtxRelease, (CUdevice device), (device))
ENDS_CONTEXT_OF(device, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))
ENDS_CONTEXT_OF(device, cuDevicePrimaryCtxReset, (CUdevice device), (device))
ENDS_CONTEXT_OF(device, cuDevicePrimaryCtxReset_v2, (CUdevice device), (device))
// A green context shares its device's primary context, and its memory outlives it; a thread that worked in it has no
// context any more.
CONTEXT(cuGreenCtxDestroy, (CUgreenCtx context), (context))

#define RUNTIME_RESET(symbol)                                      \
  RUNTIME_HOOK(symbol, (void)) {                                   \
    const Call call;                                               \
    const int device = call.value_at_entry(exact_current_device);  \
    const cudaError_t result = CALL_RUNTIME(symbol, ());           \
    ask_anew(call);                                                \
    if (call.after() && device >= 0) events::device_reset(device); \
    return result;                                                 \
  }
RUNTIME_RESET(cudaDeviceReset)
RUNTIME_RESET(cudaThreadExit)  // its name before CUDA 4, exported up to 12

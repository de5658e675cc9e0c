// Names and texts of the runtime's errors, which differ from the driver's in name only.
#include <cstring>

#include "simulate/cudart/runtime.h"

namespace {

struct Row {
  cudaError_t code;
  const char *name, *text;  // text null: the driver's
};

// clang-format off
#define E(code) {code, #code, nullptr}
#define T(code, text) {code, #code, text}
constexpr Row kErrors[] = {
    E(cudaSuccess), E(cudaErrorInvalidValue), E(cudaErrorMemoryAllocation), E(cudaErrorInitializationError),
    T(cudaErrorCudartUnloading, "driver shutting down"), T(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    T(cudaErrorInvalidPitchValue, "invalid pitch argument"), T(cudaErrorInvalidSymbol, "invalid device symbol"),
    T(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    T(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    T(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    T(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    T(cudaErrorInvalidDeviceFunction, "invalid device function"),
    E(cudaErrorNoDevice), E(cudaErrorInvalidDevice), E(cudaErrorInvalidKernelImage), E(cudaErrorDeviceUninitialized),
    E(cudaErrorNoKernelImageForDevice), E(cudaErrorUnsupportedLimit), E(cudaErrorPeerAccessUnsupported), E(cudaErrorInvalidPtx),
    E(cudaErrorInvalidSource), E(cudaErrorFileNotFound), E(cudaErrorInvalidResourceHandle), E(cudaErrorIllegalState),
    E(cudaErrorSymbolNotFound), E(cudaErrorNotReady), E(cudaErrorIllegalAddress), E(cudaErrorAssert), E(cudaErrorLaunchOutOfResources),
    E(cudaErrorPeerAccessAlreadyEnabled), E(cudaErrorPeerAccessNotEnabled), E(cudaErrorContextIsDestroyed),
    E(cudaErrorHostMemoryAlreadyRegistered), E(cudaErrorHostMemoryNotRegistered), E(cudaErrorLaunchFailure),
    E(cudaErrorNotPermitted), E(cudaErrorNotSupported), E(cudaErrorStreamCaptureUnsupported), E(cudaErrorStreamCaptureInvalidated),
    E(cudaErrorStreamCaptureMerge), E(cudaErrorStreamCaptureUnmatched), E(cudaErrorStreamCaptureUnjoined),
    E(cudaErrorStreamCaptureIsolation), E(cudaErrorStreamCaptureImplicit), E(cudaErrorCapturedEvent),
    E(cudaErrorStreamCaptureWrongThread), E(cudaErrorGraphExecUpdateFailure), E(cudaErrorInvalidResourceType), E(cudaErrorUnknown),
    E(cudaErrorLaunchTimeout), E(cudaErrorMisalignedAddress), E(cudaErrorCooperativeLaunchTooLarge), E(cudaErrorInvalidClusterSize),
};
#undef E
#undef T
// clang-format on

const Row* row_of(cudaError_t code) {
  for (const Row& row : kErrors)
    if (row.code == code) return &row;
  return nullptr;
}

}  // namespace

extern "C" {

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const Row* row = row_of(error);
  return row ? row->name : "unrecognized error code";
}

const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const Row* row = row_of(error);
  if (!row) return "unrecognized error code";
  if (row->text) return row->text;
  const char* text = "unknown error";
  cuGetErrorString(static_cast<CUresult>(error), &text);
  return text;
}

// How a tracer tells a rehearsal from hardware: the number of simulated devices of this machine.
int devtrace_sim_devtrace_simulation(void);
__attribute__((visibility("default"))) int devtrace_simulation(void) {
  return devtrace_sim_devtrace_simulation();
}

}  // extern "C"

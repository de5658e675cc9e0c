// cuSOLVER: handles keep their stream; what computes is generated (tools/library.py) and reports success.
#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <cusolverDn.h>
#include <cusolverSp.h>
#pragma GCC visibility pop

namespace lib = devtrace::simulate::library;

namespace {

cusolverStatus_t set_stream(const void* handle, cudaStream_t stream) {
  if (!lib::alive(handle)) return CUSOLVER_STATUS_NOT_INITIALIZED;
  lib::object(handle)->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t get_stream(const void* handle, cudaStream_t* stream) {
  if (!lib::alive(handle)) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!stream) return CUSOLVER_STATUS_INVALID_VALUE;
  *stream = lib::object(handle)->stream;
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cusolverStatus_t CUSOLVERAPI cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  return set_stream(handle, stream);
}
cusolverStatus_t CUSOLVERAPI cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream) {
  return get_stream(handle, stream);
}
cusolverStatus_t CUSOLVERAPI cusolverSpSetStream(cusolverSpHandle_t handle, cudaStream_t stream) {
  return set_stream(handle, stream);
}
cusolverStatus_t CUSOLVERAPI cusolverSpGetStream(cusolverSpHandle_t handle, cudaStream_t* stream) {
  return get_stream(handle, stream);
}

cusolverStatus_t CUSOLVERAPI cusolverGetVersion(int* version) {
  if (!version) return CUSOLVER_STATUS_INVALID_VALUE;
  *version = CUSOLVER_VERSION;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t CUSOLVERAPI cusolverGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUSOLVER_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? CUSOLVER_VER_MAJOR : type == MINOR_VERSION ? CUSOLVER_VER_MINOR : CUSOLVER_VER_PATCH;
  return CUSOLVER_STATUS_SUCCESS;
}

}  // extern "C"

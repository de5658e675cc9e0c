// cuDNN, reported absent: PyTorch then takes its own kernels, whose checks and launches the simulation can follow.
//
// The wheel links cuDNN and offers no run-time way to say that it is missing. So this stub answers PyTorch's own
// question, "may cuDNN be used?" (torch.backends.cudnn.enabled), with no. It has handles, as others make one whether
// they use it or not (XLA); what would be computed with one is refused.
#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <cudnn.h>

namespace at {
class Context {
 public:
  bool userEnabledCuDNN() const;
  bool userEnabledCuDNNSDP() const;  // its attention kernels have a switch of their own
};
bool Context::userEnabledCuDNN() const {
  return false;
}
bool Context::userEnabledCuDNNSDP() const {
  return false;
}
}  // namespace at
#pragma GCC visibility pop

namespace lib = devtrace::simulate::library;

extern "C" {

cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
  if (!handle) return CUDNN_STATUS_BAD_PARAM;
  *handle = reinterpret_cast<cudnnHandle_t>(lib::make());
  return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_INITIALIZED;
}
cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  return lib::destroy(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!lib::alive(handle)) return CUDNN_STATUS_BAD_PARAM;
  lib::object(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t CUDNNWINAPI cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (!stream || !lib::alive(handle)) return CUDNN_STATUS_BAD_PARAM;
  *stream = lib::object(handle)->stream;
  return CUDNN_STATUS_SUCCESS;
}

// The true version: PyTorch compares it with the one it was built for.
size_t CUDNNWINAPI cudnnGetVersion(void) {
  return CUDNN_VERSION;
}
size_t CUDNNWINAPI cudnnGetMaxDeviceVersion(void) {
  return CUDNN_VERSION;
}
size_t CUDNNWINAPI cudnnGetCudartVersion(void) {
  return CUDART_VERSION;
}

cudnnStatus_t CUDNNWINAPI cudnnGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUDNN_STATUS_BAD_PARAM;
  *value = type == MAJOR_VERSION ? CUDNN_MAJOR : type == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}

const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED (cuDNN is not simulated)"
                                                : "CUDNN_STATUS_ERROR";
}

void CUDNNWINAPI cudnnGetLastErrorString(char* message, size_t size) {
  if (message && size) message[0] = 0;
}

}  // extern "C"

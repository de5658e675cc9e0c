// cublasXt: handles with their devices. What computes is generated; it works on memory of the host and of all devices,
// and the call returns when it is done.
#include <vector>

#include "simulate/cublas/call.h"
#pragma GCC visibility push(default)
#include <cublasXt.h>
#pragma GCC visibility pop

namespace lib = devtrace::simulate::library;

namespace {

// Of an object that stands for such a handle: numbers hold the devices as bits, and the size of its blocks.
enum Number { kDevices, kBlock };
enum Mode { kPinning };
constexpr size_t kUsualBlock = 1024;

std::vector<int> devices_of(const void* handle) {
  const size_t bits = lib::object(handle)->numbers[kDevices];
  std::vector<int> all;
  for (int i = 0; bits >> i; ++i)
    if (bits >> i & 1) all.push_back(i);
  return all;
}

}  // namespace

namespace devtrace::simulate::cublas {

cublasStatus_t compute_on_several(const Call& call, const std::function<void()>& work) {
  const std::vector<int> devices = devices_of(call.handle);
  if (devices.empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  return library::calculate_on(devices, call.name, work) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace devtrace::simulate::cublas

extern "C" {

cublasStatus_t CUBLASWINAPI cublasXtCreate(cublasXtHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  lib::Object* const made = lib::make();
  if (!made) return CUBLAS_STATUS_NOT_INITIALIZED;
  made->numbers[kBlock] = kUsualBlock;
  *handle = reinterpret_cast<cublasXtHandle_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtDestroy(cublasXtHandle_t handle) {
  return lib::destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t CUBLASWINAPI cublasXtGetNumBoards(int count, int*, int* boards) {
  if (!boards) return CUBLAS_STATUS_INVALID_VALUE;
  *boards = count;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtMaxBoards(int* boards) {
  if (!boards) return CUBLAS_STATUS_INVALID_VALUE;
  return cuInit(0) || cuDeviceGetCount(boards) ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtDeviceSelect(cublasXtHandle_t handle, int count, int devices[]) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  int there = 0;
  if (cuInit(0) || cuDeviceGetCount(&there) || count < 1 || !devices) return CUBLAS_STATUS_INVALID_VALUE;
  size_t bits = 0;
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= there) return CUBLAS_STATUS_INVALID_VALUE;
    bits |= size_t{1} << devices[i];
  }
  lib::object(handle)->numbers[kDevices] = bits;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtSetBlockDim(cublasXtHandle_t handle, int block) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (block < 1) return CUBLAS_STATUS_INVALID_VALUE;
  lib::object(handle)->numbers[kBlock] = static_cast<size_t>(block);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtGetBlockDim(cublasXtHandle_t handle, int* block) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *block = static_cast<int>(lib::object(handle)->numbers[kBlock]);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtSetPinningMemMode(cublasXtHandle_t handle, cublasXtPinnedMemMode_t mode) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  lib::object(handle)->modes[kPinning] = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasXtGetPinningMemMode(cublasXtHandle_t handle, cublasXtPinnedMemMode_t* mode) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = static_cast<cublasXtPinnedMemMode_t>(lib::object(handle)->modes[kPinning]);
  return CUBLAS_STATUS_SUCCESS;
}
// A share for the host's processor gives the same values.
cublasStatus_t CUBLASWINAPI cublasXtSetCpuRoutine(cublasXtHandle_t handle, cublasXtBlasOp_t, cublasXtOpType_t, void*) {
  return lib::alive(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t CUBLASWINAPI cublasXtSetCpuRatio(cublasXtHandle_t handle, cublasXtBlasOp_t, cublasXtOpType_t, float) {
  return lib::alive(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

}  // extern "C"

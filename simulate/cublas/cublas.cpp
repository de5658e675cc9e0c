// cuBLAS: handles and modes are kept; the many functions that compute are generated (tools/library.py), and computed
// where computed.h has them.
#include "simulate/cublas/call.h"
#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

namespace lib = devtrace::simulate::library;
using namespace devtrace::simulate::cublas;

namespace {

cublasStatus_t get(cublasHandle_t handle, Mode mode, int* value) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  *value = lib::object(handle)->modes[mode];
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(cublasHandle_t handle, Mode mode, int value) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  lib::object(handle)->modes[mode] = value;
  return CUBLAS_STATUS_SUCCESS;
}

struct Row {
  cublasStatus_t status;
  const char* name;
};
#define ROW(status) \
  { status, #status }
constexpr Row kStatus[] = {
    ROW(CUBLAS_STATUS_SUCCESS),          ROW(CUBLAS_STATUS_NOT_INITIALIZED), ROW(CUBLAS_STATUS_ALLOC_FAILED),
    ROW(CUBLAS_STATUS_INVALID_VALUE),    ROW(CUBLAS_STATUS_ARCH_MISMATCH),   ROW(CUBLAS_STATUS_MAPPING_ERROR),
    ROW(CUBLAS_STATUS_EXECUTION_FAILED), ROW(CUBLAS_STATUS_INTERNAL_ERROR),  ROW(CUBLAS_STATUS_NOT_SUPPORTED),
    ROW(CUBLAS_STATUS_LICENSE_ERROR),
};
#undef ROW

}  // namespace

extern "C" {

cublasStatus_t CUBLASWINAPI cublasCreate_v2(cublasHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = reinterpret_cast<cublasHandle_t>(lib::make());
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t CUBLASWINAPI cublasDestroy_v2(cublasHandle_t handle) {
  return lib::destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t CUBLASWINAPI cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : type == MINOR_VERSION ? CUBLAS_VER_MINOR : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}
size_t CUBLASWINAPI cublasGetCudartVersion(void) {
  return CUDA_VERSION;
}

cublasStatus_t CUBLASWINAPI cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  lib::object(handle)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  if (!lib::alive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = lib::object(handle)->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasSetWorkspace_v2(cublasHandle_t handle, void*, size_t) {
  return lib::alive(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t CUBLASWINAPI cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return set(handle, kPointer, mode);
}
cublasStatus_t CUBLASWINAPI cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return get(handle, kPointer, reinterpret_cast<int*>(mode));
}
cublasStatus_t CUBLASWINAPI cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return set(handle, kMath, mode);
}
cublasStatus_t CUBLASWINAPI cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return get(handle, kMath, reinterpret_cast<int*>(mode));
}
cublasStatus_t CUBLASWINAPI cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return set(handle, kAtomics, mode);
}
cublasStatus_t CUBLASWINAPI cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return get(handle, kAtomics, reinterpret_cast<int*>(mode));
}
cublasStatus_t CUBLASWINAPI cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  return set(handle, kSmCount, count);
}
cublasStatus_t CUBLASWINAPI cublasGetSmCountTarget(cublasHandle_t handle, int* count) {
  return get(handle, kSmCount, count);
}
const char* CUBLASWINAPI cublasGetStatusName(cublasStatus_t status) {
  for (const Row& row : kStatus)
    if (row.status == status) return row.name;
  return "CUBLAS_STATUS_UNKNOWN";
}
const char* CUBLASWINAPI cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}
cublasStatus_t CUBLASWINAPI cublasLoggerConfigure(int, int, int, const char*) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasSetLoggerCallback(cublasLogCallback) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasGetLoggerCallback(cublasLogCallback* callback) {
  *callback = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

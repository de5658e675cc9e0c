// cuBLASLt: descriptors keep their attributes, the heuristic offers one algorithm without workspace, products are
// recorded.
#include <cstring>

#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

namespace lib = devtrace::simulate::library;

namespace {

// The opaque descriptors are public structs that programs may also put on their stack (…Init). Attributes are kept in
// their own words by index, which is all that a Get needs to give back what a Set put in.
template <typename T>
cublasStatus_t attribute_set(T* descriptor, int attribute, const void* value, size_t size) {
  constexpr int kWords = sizeof(T) / 8;
  if (!descriptor || !value) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute >= 0 && attribute < kWords && size <= 8) {
    auto* words = reinterpret_cast<char*>(descriptor);
    std::memset(words + attribute * 8, 0, 8);
    std::memcpy(words + attribute * 8, value, size);
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t attribute_get(T* descriptor, int attribute, void* value, size_t size, size_t* written) {
  constexpr int kWords = sizeof(T) / 8;
  if (!descriptor) return CUBLAS_STATUS_INVALID_VALUE;
  if (written) *written = size;
  if (value && attribute >= 0 && attribute < kWords && size <= 8)
    std::memcpy(value, reinterpret_cast<const char*>(descriptor) + attribute * 8, size);
  else if (value)
    std::memset(value, 0, size);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t create(T** out) {
  if (!out) return CUBLAS_STATUS_INVALID_VALUE;
  *out = new T{};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t writes(const char* name, cudaStream_t stream, const void* memory) {
  return devtrace_sim_library_work(name, nullptr, stream, &memory, 1, 0, 1) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                            : CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = reinterpret_cast<cublasLtHandle_t>(lib::make());
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle) {
  return lib::destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
size_t CUBLASWINAPI cublasLtGetVersion(void) {
  return CUBLAS_VERSION;
}
size_t CUBLASWINAPI cublasLtGetCudartVersion(void) {
  return CUDA_VERSION;
}
cublasStatus_t CUBLASWINAPI cublasLtGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : type == MINOR_VERSION ? CUBLAS_VER_MINOR : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}
const char* CUBLASWINAPI cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_ERROR";
}
const char* CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

// A cuBLAS handle may be given as a cuBLASLt handle, so the handle is not looked up here; the stream is an argument.
cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* a,
                                           cublasLtMatrixLayout_t, const void* b, cublasLtMatrixLayout_t, const void*,
                                           const void*, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t,
                                           const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  if (!operation || !a || !b || !d) return CUBLAS_STATUS_INVALID_VALUE;
  return writes("cublasLtMatmul", stream, d);
}
cublasStatus_t CUBLASWINAPI cublasLtMatrixTransform(cublasLtHandle_t, cublasLtMatrixTransformDesc_t, const void*,
                                                    const void*, cublasLtMatrixLayout_t, const void*, const void*,
                                                    cublasLtMatrixLayout_t, void* c, cublasLtMatrixLayout_t,
                                                    cudaStream_t stream) {
  return writes("cublasLtMatrixTransform", stream, c);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                           cublasLtMatmulPreference_t, int wanted,
                                                           cublasLtMatmulHeuristicResult_t results[], int* found) {
  if (wanted < 1 || !results || !found) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(results, 0, sizeof *results);
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                    cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulHeuristicResult_t* result) {
  if (!algorithm || !result) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(result, 0, sizeof *result);
  result->algo = *algorithm;
  return CUBLAS_STATUS_SUCCESS;
}

// A descriptor's functions. Behind its name and its attributes' type: what it is made with, of which nothing is kept.
#define DESCRIPTOR(name, attributes, ...)                                                                   \
  cublasStatus_t CUBLASWINAPI cublasLt##name##Create(cublasLt##name##_t* made __VA_OPT__(, ) __VA_ARGS__) { \
    return create(made);                                                                                    \
  }                                                                                                         \
  cublasStatus_t CUBLASWINAPI cublasLt##name##Init_internal(cublasLt##name##_t descriptor,                  \
                                                            size_t size __VA_OPT__(, ) __VA_ARGS__) {       \
    std::memset(descriptor, 0, size);                                                                       \
    return CUBLAS_STATUS_SUCCESS;                                                                           \
  }                                                                                                         \
  cublasStatus_t CUBLASWINAPI cublasLt##name##Destroy(cublasLt##name##_t descriptor) {                      \
    delete descriptor;                                                                                      \
    return CUBLAS_STATUS_SUCCESS;                                                                           \
  }                                                                                                         \
  cublasStatus_t CUBLASWINAPI cublasLt##name##SetAttribute(cublasLt##name##_t descriptor, attributes which, \
                                                           const void* value, size_t size) {                \
    return attribute_set(descriptor, which, value, size);                                                   \
  }                                                                                                         \
  cublasStatus_t CUBLASWINAPI cublasLt##name##GetAttribute(cublasLt##name##_t descriptor, attributes which, \
                                                           void* value, size_t size, size_t* written) {     \
    return attribute_get(descriptor, which, value, size, written);                                          \
  }
DESCRIPTOR(MatrixLayout, cublasLtMatrixLayoutAttribute_t, cudaDataType, uint64_t, uint64_t, int64_t)
DESCRIPTOR(MatmulDesc, cublasLtMatmulDescAttributes_t, cublasComputeType_t, cudaDataType_t)
DESCRIPTOR(MatmulPreference, cublasLtMatmulPreferenceAttributes_t)
DESCRIPTOR(MatrixTransformDesc, cublasLtMatrixTransformDescAttributes_t, cudaDataType)

cublasStatus_t CUBLASWINAPI cublasLtHeuristicsCacheSetCapacity(size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (!capacity) return CUBLAS_STATUS_INVALID_VALUE;
  *capacity = 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtLoggerSetLevel(int) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtLoggerSetMask(int) {
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

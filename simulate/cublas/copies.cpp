// cublasSetMatrix and its kin: copies between the host and a device, column by column.
#include "simulate/cublas/call.h"

namespace {

struct Columns {
  const void* data;
  int64_t stride;  // numbers from one column's begin to the next one's
};

// `stream` null: the call returns when it is done.
cublasStatus_t copy(int64_t rows, int64_t columns, int64_t bytes, Columns from, Columns to,
                    const cudaStream_t* stream) {
  if (rows < 0 || columns < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (rows == 0 || columns == 0) return CUBLAS_STATUS_SUCCESS;
  if (bytes <= 0 || from.stride < rows || to.stride < rows || !from.data || !to.data)
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto in_bytes = [bytes](int64_t numbers) { return static_cast<size_t>(numbers * bytes); };
  CUDA_MEMCPY2D c = {};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = reinterpret_cast<CUdeviceptr>(from.data);
  c.dstDevice = reinterpret_cast<CUdeviceptr>(to.data);
  c.srcPitch = in_bytes(from.stride);
  c.dstPitch = in_bytes(to.stride);
  c.WidthInBytes = in_bytes(rows);
  c.Height = static_cast<size_t>(columns);
  const CUresult result = stream ? cuMemcpy2DAsync(&c, *stream) : cuMemcpy2DUnaligned(&c);
  return result ? CUBLAS_STATUS_MAPPING_ERROR : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t copy_vector(int64_t count, int64_t bytes, const void* from, int64_t from_step, void* to, int64_t to_step,
                           const cudaStream_t* stream) {
  if (from_step < 1 || to_step < 1) return CUBLAS_STATUS_INVALID_VALUE;
  return copy(1, count, bytes, {from, from_step}, {to, to_step}, stream);
}

}  // namespace

extern "C" {

#define COPIES(Integer, suffix)                                                                                        \
  cublasStatus_t CUBLASWINAPI cublasSetVector##suffix(Integer n, Integer bytes, const void* x, Integer x_step,         \
                                                      void* y, Integer y_step) {                                       \
    return copy_vector(n, bytes, x, x_step, y, y_step, nullptr);                                                       \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasGetVector##suffix(Integer n, Integer bytes, const void* x, Integer x_step,         \
                                                      void* y, Integer y_step) {                                       \
    return copy_vector(n, bytes, x, x_step, y, y_step, nullptr);                                                       \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasSetVectorAsync##suffix(Integer n, Integer bytes, const void* x, Integer x_step,    \
                                                           void* y, Integer y_step, cudaStream_t stream) {             \
    return copy_vector(n, bytes, x, x_step, y, y_step, &stream);                                                       \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasGetVectorAsync##suffix(Integer n, Integer bytes, const void* x, Integer x_step,    \
                                                           void* y, Integer y_step, cudaStream_t stream) {             \
    return copy_vector(n, bytes, x, x_step, y, y_step, &stream);                                                       \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasSetMatrix##suffix(Integer rows, Integer columns, Integer bytes, const void* a,     \
                                                      Integer a_stride, void* b, Integer b_stride) {                   \
    return copy(rows, columns, bytes, {a, a_stride}, {b, b_stride}, nullptr);                                          \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasGetMatrix##suffix(Integer rows, Integer columns, Integer bytes, const void* a,     \
                                                      Integer a_stride, void* b, Integer b_stride) {                   \
    return copy(rows, columns, bytes, {a, a_stride}, {b, b_stride}, nullptr);                                          \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasSetMatrixAsync##suffix(Integer rows, Integer columns, Integer bytes,               \
                                                           const void* a, Integer a_stride, void* b, Integer b_stride, \
                                                           cudaStream_t stream) {                                      \
    return copy(rows, columns, bytes, {a, a_stride}, {b, b_stride}, &stream);                                          \
  }                                                                                                                    \
  cublasStatus_t CUBLASWINAPI cublasGetMatrixAsync##suffix(Integer rows, Integer columns, Integer bytes,               \
                                                           const void* a, Integer a_stride, void* b, Integer b_stride, \
                                                           cudaStream_t stream) {                                      \
    return copy(rows, columns, bytes, {a, a_stride}, {b, b_stride}, &stream);                                          \
  }
COPIES(int, )
COPIES(int64_t, _64)
#undef COPIES

}  // extern "C"

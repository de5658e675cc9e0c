// A descriptor of cuSPARSE holds the address that it was made with: a vector of another device.
#include <cuda_runtime.h>
#include <cusparse.h>

int main() {
  const int rows = 4;
  const int offsets[rows + 1] = {0, 1, 2, 3, 4}, columns[rows] = {0, 1, 2, 3};
  const float values[rows] = {1, 2, 3, 4}, ones[rows] = {1, 1, 1, 1}, one = 1, zero = 0;
  const int device = 1;
#ifdef REPAIRED
  cudaSetDevice(device);
#endif
  float* x = nullptr;
  cudaMalloc(&x, sizeof ones);  // CAUSE
  cudaMemcpy(x, ones, sizeof ones, cudaMemcpyHostToDevice);
  cudaSetDevice(device);
  int *row_offsets, *column_indices;
  float *nonzeros, *y;
  cudaMalloc(&row_offsets, sizeof offsets);
  cudaMalloc(&column_indices, sizeof columns);
  cudaMalloc(&nonzeros, sizeof values);
  cudaMalloc(&y, sizeof values);
  cudaMemcpy(row_offsets, offsets, sizeof offsets, cudaMemcpyHostToDevice);
  cudaMemcpy(column_indices, columns, sizeof columns, cudaMemcpyHostToDevice);
  cudaMemcpy(nonzeros, values, sizeof values, cudaMemcpyHostToDevice);
  cusparseHandle_t sparse;
  cusparseSpMatDescr_t matrix;
  cusparseDnVecDescr_t vector, result;
  cusparseCreate(&sparse);
  cusparseCreateCsr(&matrix, rows, rows, rows, row_offsets, column_indices, nonzeros, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                    CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
  cusparseCreateDnVec(&vector, rows, x, CUDA_R_32F);
  cusparseCreateDnVec(&result, rows, y, CUDA_R_32F);
  size_t bytes = 0;
  void* buffer = nullptr;
  cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, vector, &zero, result, CUDA_R_32F,
                          CUSPARSE_SPMV_ALG_DEFAULT, &bytes);
  cudaMalloc(&buffer, bytes + 1);
  cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, vector, &zero, result, CUDA_R_32F,  // FOUND
               CUSPARSE_SPMV_ALG_DEFAULT, buffer);
  return cudaDeviceSynchronize();
}

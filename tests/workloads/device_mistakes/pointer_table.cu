// A table of rows in device memory, as batched kernels take: the rows of one device, the table and the kernel of another.
#include <cuda_runtime.h>

#include <vector>

__global__ void row_sums(float* sums, const float* const* rows, int columns) {
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += rows[blockIdx.x][i];
  sums[blockIdx.x] = sum;
}

int main() {
  const int rows = 4, columns = 256;
  std::vector<float*> host_rows(rows);
  const int loader = 0, worker = 1;
#ifdef REPAIRED
  cudaSetDevice(worker);
#else
  cudaSetDevice(loader);  // CAUSE
#endif
  for (float*& row : host_rows) {
    cudaMalloc(&row, columns * sizeof(float));
    cudaMemset(row, 0, columns * sizeof(float));
  }
  cudaSetDevice(worker);
  float** device_rows = nullptr;
  float* sums = nullptr;
  cudaMalloc(&device_rows, rows * sizeof(float*));
  cudaMalloc(&sums, rows * sizeof(float));
  cudaMemcpy(device_rows, host_rows.data(), rows * sizeof(float*), cudaMemcpyHostToDevice);
  row_sums<<<rows, 1>>>(sums, device_rows, columns);  // FOUND
  return cudaDeviceSynchronize();
}

// No mistake: every device has the same table of all buffers, and its kernel takes its own entry.
#include <cuda_runtime.h>

__global__ void own(float* const* buffers, int device) { buffers[device][threadIdx.x] += 1; }

int main() {
  const int devices = 2;
  float* buffers[devices];
  for (int i = 0; i < devices; ++i) {
    cudaSetDevice(i);
    cudaMalloc(&buffers[i], 128);
  }
  for (int i = 0; i < devices; ++i) {
    float** table = nullptr;
    cudaSetDevice(i);
    cudaMalloc(&table, sizeof buffers);
    cudaMemcpy(table, buffers, sizeof buffers, cudaMemcpyHostToDevice);
    own<<<1, 32>>>(table, i);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  }
  return 0;
}

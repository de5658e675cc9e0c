// Memory in the order of a stream comes from the pool of the stream's device, whichever is current.
#include <cuda_runtime.h>

#include <vector>

__global__ void clear(float* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = 0;
}

int main() {
  const int devices = 2, count = 1024;
  std::vector<cudaStream_t> streams(devices);
  std::vector<float*> buffers(devices);
  for (int i = 0; i < devices; ++i) {
    cudaSetDevice(i);
    cudaStreamCreate(&streams[i]);
  }
  for (int i = 0; i < devices; ++i) {
    cudaSetDevice(i);
#ifdef REPAIRED
    cudaMallocAsync(&buffers[i], count * sizeof(float), streams[i]);
#else
    cudaMallocAsync(&buffers[i], count * sizeof(float), streams[0]);  // CAUSE
#endif
    cudaDeviceSynchronize();
    clear<<<4, 256, 0, streams[i]>>>(buffers[i], count);  // FOUND
    if (cudaStreamSynchronize(streams[i]) != cudaSuccess) return 1;
  }
  return cudaGetLastError();
}

// A kernel that takes a structure by value, as attention and norm kernels do: one of its pointers was filled in for another device.
#include <cuda_runtime.h>

struct ScaleParams {
  const float* srcPtr = nullptr;
  float* dstPtr = nullptr;
  int count = 0;
  float factor = 1;
};

__global__ void scale(ScaleParams p) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.count) p.dstPtr[i] = p.factor * p.srcPtr[i];
}

static float* make(int device, int count) {
  float* memory = nullptr;
  cudaSetDevice(device);
  cudaMalloc(&memory, count * sizeof(float));
  cudaMemset(memory, 0, count * sizeof(float));
  return memory;
}

int main() {
  const int source = 0, worker = 1;
  ScaleParams p;
  p.count = 1024;
#ifdef REPAIRED
  p.srcPtr = make(worker, p.count);
#else
  p.srcPtr = make(source, p.count);  // CAUSE
#endif
  p.dstPtr = make(worker, p.count);
  scale<<<4, 256>>>(p);  // FOUND
  return cudaDeviceSynchronize();
}

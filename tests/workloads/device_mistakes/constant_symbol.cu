// A constant that is filled in on the device that is current, and read by kernels of every device.
#include <cuda_runtime.h>

__constant__ float coefficients[8];

__global__ void stencil(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = coefficients[i % 8] * in[i];
}

static void upload(const float* values) {
  cudaMemcpyToSymbol(coefficients, values, 8 * sizeof(float));  // CAUSE
}

int main() {
  const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int devices = 0;
  cudaGetDeviceCount(&devices);
#ifndef REPAIRED
  upload(values);
#endif
  for (int device = 0; device < devices; ++device) {
    cudaSetDevice(device);
#ifdef REPAIRED
    upload(values);
#endif
    float *in = nullptr, *out = nullptr;
    cudaMalloc(&in, 1024 * sizeof(float));
    cudaMalloc(&out, 1024 * sizeof(float));
    cudaMemset(in, 0, 1024 * sizeof(float));
    stencil<<<4, 256>>>(out, in, 1024);  // FOUND
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  }
  return 0;
}

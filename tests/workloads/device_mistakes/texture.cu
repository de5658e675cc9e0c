// A texture object of the device that was current when it was made, sampled by a kernel of another.
#include <cuda_runtime.h>

__global__ void sample(float* out, cudaTextureObject_t texture, int width) {
  const int i = threadIdx.x;
  if (i < width) out[i] = tex1Dfetch<float>(texture, i);
}

int main() {
  const int width = 64, device = 1;
#ifdef REPAIRED
  cudaSetDevice(device);
#endif
  float* in = nullptr;
  cudaMalloc(&in, width * sizeof(float));  // CAUSE
  cudaMemset(in, 0, width * sizeof(float));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = in;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = width * sizeof(float);
  cudaTextureDesc how = {};
  how.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture = 0;
  cudaCreateTextureObject(&texture, &resource, &how, nullptr);
  cudaSetDevice(device);
  float* out = nullptr;
  cudaMalloc(&out, width * sizeof(float));
  sample<<<1, 64>>>(out, texture, width);  // FOUND
  return cudaDeviceSynchronize();
}

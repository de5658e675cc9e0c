// A launch by configuration and a list of arguments, on the device of the stream.
#include <cuda_runtime.h>

__global__ void rotate(float* q, const float* cosines, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) q[i] *= cosines[i];
}

struct Layer {
  int device = 0;
  cudaStream_t stream = nullptr;
  float* query = nullptr;
};

static float* cosine_table(int count) {
  float* table = nullptr;
  cudaMalloc(&table, count * sizeof(float));
  cudaMemset(table, 0, count * sizeof(float));
  return table;
}

static cudaError_t forward(Layer& layer, float* cosines, int count) {
  cudaSetDevice(layer.device);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(4);
  config.blockDim = dim3(256);
  config.stream = layer.stream;
  void* args[] = {&layer.query, &cosines, &count};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(rotate), args);  // FOUND
}

int main() {
  const int count = 1024;
  Layer layer;
  layer.device = 1;
#ifdef REPAIRED
  cudaSetDevice(layer.device);
#endif
  float* cosines = cosine_table(count);  // CAUSE
  cudaSetDevice(layer.device);
  cudaStreamCreate(&layer.stream);
  cudaMalloc(&layer.query, count * sizeof(float));
  cudaMemset(layer.query, 0, count * sizeof(float));
  forward(layer, cosines, count);
  return cudaDeviceSynchronize();
}

// A node of a graph that is given another device's memory.
#include <cuda_runtime.h>

__global__ void smooth(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 0.5f * in[i];
}

int main() {
  const int device = 1;
  int count = 1024;
  float *input = nullptr, *output = nullptr;
#ifdef REPAIRED
  cudaSetDevice(device);
#endif
  cudaMalloc(&input, count * sizeof(float));  // CAUSE
  cudaMemset(input, 0, count * sizeof(float));
  cudaSetDevice(device);
  cudaMalloc(&output, count * sizeof(float));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t node;
  cudaGraphCreate(&graph, 0);
  void* kernel_args[] = {&output, &input, &count};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(smooth);
  params.gridDim = dim3(4);
  params.blockDim = dim3(256);
  params.kernelParams = kernel_args;
  cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params);  // FOUND
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphLaunch(executable, nullptr);
  return cudaDeviceSynchronize();
}

// Many functions of the runtime, by a program that prints a line for each. Built with its own copy of the runtime and with
// the shared one, both must print the same. "other": a kernel is given memory of another device at the end.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

__device__ int number = 7;
__constant__ float table[4] = {1, 2.5f, 3, 4};
__device__ double unset[3];
__device__ int* address = &number;
__managed__ int managed = 11;

__global__ void touch(int* data, int count) {
  if (static_cast<int>(threadIdx.x) < count) data[threadIdx.x] = number + *address + managed;
}

template <typename T>
__global__ void add(T* to, const T* from) {
  to[threadIdx.x] += from[threadIdx.x] + static_cast<T>(table[threadIdx.x % 4]);
}

// A scalar by its address or by its value, as cuBLAS's kernels take them.
__global__ void scale(float* data, const float* factor, float value, bool by_address) {
  if (by_address) value = *factor;
  data[threadIdx.x] *= value;
}

#define SAY(call) std::printf("%s: %s\n", #call, cudaGetErrorName(call))

int main(int argc, char** argv) {
  int devices = 0, device = -1, version = 0;
  SAY(cudaGetDeviceCount(&devices));
  if (!devices) return 3;
  SAY(cudaRuntimeGetVersion(&version));
  std::printf("%d devices, runtime %d\n", devices, version / 1000);
  cudaDeviceProp properties;
  SAY(cudaGetDeviceProperties(&properties, 1));
  std::printf("%s %d.%d\n", properties.name, properties.major, properties.minor);

  int *here, *there, *host;
  SAY(cudaSetDevice(1));
  SAY(cudaMalloc(&there, 4096));
  SAY(cudaSetDevice(0));
  SAY(cudaGetDevice(&device));
  SAY(cudaMalloc(&here, 4096));
  SAY(cudaMallocHost(&host, 4096));
  std::memset(host, 5, 4096);
  SAY(cudaMemcpy(here, host, 4096, cudaMemcpyHostToDevice));
  SAY(cudaMemcpyPeer(there, 1, here, 0, 4096));
  std::memset(host, 0, 4096);
  SAY(cudaMemcpy(host, there, 4096, cudaMemcpyDeviceToHost));
  std::printf("%x %x\n", host[0], host[1023]);
  SAY(cudaMemset(here, 1, 4096));

  int got = 0;
  float values[4] = {};
  double zeros[3] = {1, 1, 1};
  SAY(cudaMemcpyFromSymbol(&got, number, sizeof got));
  SAY(cudaMemcpyFromSymbol(values, table, sizeof values));
  SAY(cudaMemcpyFromSymbol(zeros, unset, sizeof zeros));
  std::printf("%d %g %g %g %g %g\n", got, values[0], values[1], values[2], values[3], zeros[2]);
  int* pointed;
  SAY(cudaMemcpyFromSymbol(&pointed, address, sizeof pointed));
  SAY(cudaMemcpy(&got, pointed, sizeof got, cudaMemcpyDeviceToHost));
  std::printf("%d %d\n", got, managed);
  got = 9;
  SAY(cudaMemcpyToSymbol(number, &got, sizeof got));
  got = 0;
  SAY(cudaMemcpyFromSymbol(&got, number, sizeof got));
  void* symbol;
  size_t size = 0;
  SAY(cudaGetSymbolAddress(&symbol, table));
  SAY(cudaGetSymbolSize(&size, table));
  std::printf("%d %zu\n", got, size);

  cudaStream_t stream;
  cudaEvent_t event;
  SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  SAY(cudaEventCreate(&event));
  touch<<<1, 32, 0, stream>>>(here, 32);
  SAY(cudaGetLastError());
  SAY(cudaEventRecord(event, stream));
  SAY(cudaEventSynchronize(event));
  SAY(cudaStreamWaitEvent(stream, event, 0));
  void* pooled;
  SAY(cudaMallocAsync(&pooled, 1 << 20, stream));
  SAY(cudaFreeAsync(pooled, stream));

  cudaGraph_t graph;
  cudaGraphExec_t ready;
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add<<<1, 64, 0, stream>>>(here, here + 64);
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaGraphInstantiate(&ready, graph, 0));
  SAY(cudaGraphLaunch(ready, stream));
  SAY(cudaStreamSynchronize(stream));

  int reach = 0, blocks = 0;
  SAY(cudaDeviceCanAccessPeer(&reach, 0, 1));
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, touch, 128, 0));
  cudaFuncAttributes attributes;
  SAY(cudaFuncGetAttributes(&attributes, add<float>));
  std::printf("%d %d %d\n", reach, blocks > 0, attributes.maxThreadsPerBlock);
  cudaPointerAttributes owner;
  SAY(cudaPointerGetAttributes(&owner, there));
  std::printf("device %d type %d\n", owner.device, owner.type);
  void* huge;
  SAY(cudaMalloc(&huge, size_t{1} << 50));
  SAY(cudaGetLastError());
  SAY(cudaPeekAtLastError());
  size_t left, all;
  SAY(cudaMemGetInfo(&left, &all));

  const std::vector<float> on_the_heap(64, 2);
  scale<<<1, 32>>>(reinterpret_cast<float*>(here), on_the_heap.data(), 2, false);
  SAY(cudaStreamSynchronize(nullptr));

  void* arguments[] = {argc > 1 && !std::strcmp(argv[1], "other") ? &there : &here, &got};
  SAY(cudaLaunchKernel(reinterpret_cast<const void*>(touch), dim3(1), dim3(32), arguments, 0, nullptr));
  SAY(cudaDeviceSynchronize());
  SAY(cudaEventDestroy(event));
  SAY(cudaStreamDestroy(stream));
  SAY(cudaFreeHost(host));
  SAY(cudaFree(here));
}

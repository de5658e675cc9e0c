// A thread for each device, which never chooses it: every thread begins on device 0.
#include <cuda_runtime.h>

#include <thread>
#include <vector>

__global__ void saxpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

struct Shard {
  int device;
  float *x, *y;
};

static void work(const Shard& shard, int n) {
#ifdef REPAIRED
  cudaSetDevice(shard.device);
#endif
  saxpy<<<4, 256>>>(2.f, shard.x, shard.y, n);  // FOUND CAUSE
  cudaDeviceSynchronize();
}

int main() {
  std::vector<Shard> shards(2);
  for (int i = 0; i < 2; ++i) {
    shards[i].device = i;
    cudaSetDevice(i);
    cudaMalloc(&shards[i].x, 4096);
    cudaMalloc(&shards[i].y, 4096);
    cudaMemset(shards[i].x, 0, 4096);
    cudaMemset(shards[i].y, 0, 4096);
  }
  std::vector<std::thread> threads;
  for (const Shard& shard : shards) threads.emplace_back(work, std::cref(shard), 1024);
  for (std::thread& thread : threads) thread.join();
  return cudaGetLastError();
}

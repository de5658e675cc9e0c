// A copy between peers that names the devices the wrong way round.
#include <cuda_runtime.h>

static void gather(void* dst, int dst_device, const void* src, int src_device, size_t bytes, cudaStream_t stream) {
#ifdef REPAIRED
  cudaMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, stream);
#else
  cudaMemcpyPeerAsync(dst, src_device, src, dst_device, bytes, stream);  // FOUND CAUSE
#endif
}

int main() {
  const int root = 0, worker = 1;
  float *part, *whole;
  cudaSetDevice(worker);
  cudaMalloc(&part, 4096);
  cudaMemset(part, 0, 4096);
  cudaSetDevice(root);
  cudaMalloc(&whole, 8192);
  gather(whole + 1024, root, part, worker, 4096, nullptr);
  return cudaDeviceSynchronize();
}

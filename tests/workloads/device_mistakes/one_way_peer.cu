// Access was opened from device 0 to device 1; the kernel that reads its peer's memory runs on device 1.
#include <cuda_runtime.h>

__global__ void exchange(float* mine, const float* theirs, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) mine[i] = theirs[i];
}

static void enable_peer_access(int device, int peer) {
  int possible = 0;
  cudaDeviceCanAccessPeer(&possible, device, peer);
  if (!possible) return;
  cudaSetDevice(device);
  cudaDeviceEnablePeerAccess(peer, 0);  // CAUSE
}

int main() {
  const int first = 0, second = 1;
  float *left, *right;
  enable_peer_access(first, second);
#ifdef REPAIRED
  enable_peer_access(second, first);
#endif
  cudaSetDevice(first);
  cudaMalloc(&left, 4096);
  cudaMemset(left, 0, 4096);
  cudaSetDevice(second);
  cudaMalloc(&right, 4096);
  cudaMemset(right, 0, 4096);
  cudaSetDevice(first);
  exchange<<<4, 256>>>(left, right, 1024);
  cudaSetDevice(second);
  exchange<<<4, 256>>>(right, left, 1024);  // FOUND
  return cudaDeviceSynchronize();
}

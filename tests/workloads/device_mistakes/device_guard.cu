// A guard that restores the device it was made for, not the one that was current before.
#include <cuda_runtime.h>

class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : device_(device) {
    cudaGetDevice(&previous_);
    cudaSetDevice(device_);
  }
  ~DeviceGuard() {
#ifdef REPAIRED
    cudaSetDevice(previous_);
#else
    cudaSetDevice(device_);  // CAUSE
#endif
  }

 private:
  int device_;
  int previous_ = 0;
};

__global__ void scale(float* values, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

static float* allocate(int device, int count) {
  const DeviceGuard guard(device);
  float* memory = nullptr;
  cudaMalloc(&memory, count * sizeof(float));
  cudaMemset(memory, 0, count * sizeof(float));
  return memory;
}

int main() {
  const int count = 1024;
  cudaSetDevice(0);
  float* values = allocate(0, count);
  float* backup = allocate(1, count);
  scale<<<4, 256>>>(values, 2.f, count);  // FOUND
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  cudaMemcpyPeer(backup, 1, values, 0, count * sizeof(float));
  return cudaGetLastError();
}

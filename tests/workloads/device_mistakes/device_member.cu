// A class that knows its device and does not choose it before it allocates.
#include <cuda_runtime.h>

#include <cstddef>

__global__ void accumulate(float* sum, const float* part, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] += part[i];
}

class Workspace {
 public:
  explicit Workspace(int device) : device_(device) {}
  ~Workspace() { cudaFree(data_); }

  void reserve(size_t count) {
    if (count <= size_) return;
#ifdef REPAIRED
    cudaSetDevice(device_);
#endif
    cudaFree(data_);
    cudaMalloc(&data_, count * sizeof(float));  // CAUSE
    cudaMemset(data_, 0, count * sizeof(float));
    size_ = count;
  }

  void add(const float* part, int count) {
    cudaSetDevice(device_);
    accumulate<<<4, 256>>>(data_, part, count);  // FOUND
  }

 private:
  int device_;
  float* data_ = nullptr;
  size_t size_ = 0;
};

int main() {
  Workspace workspace(1);
  workspace.reserve(1024);
  float* part = nullptr;
  cudaSetDevice(1);
  cudaMalloc(&part, 1024 * sizeof(float));
  cudaMemset(part, 0, 1024 * sizeof(float));
  workspace.add(part, 1024);
  return cudaDeviceSynchronize();
}

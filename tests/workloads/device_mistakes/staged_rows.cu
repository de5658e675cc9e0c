// A batch loads its rows on a device of its own, on which nothing is ever computed, and multiplies on another one.
#include <cuda_runtime.h>

#include <vector>

__global__ void scale(float* const* rows, float by) { rows[blockIdx.x][threadIdx.x] *= by; }

class Batch {
 public:
  Batch(int staging, int device) : staging_(staging), device_(device) {}

  void load(int count) {
#ifdef REPAIRED
    cudaSetDevice(device_);
#else
    cudaSetDevice(staging_);  // CAUSE
#endif
    for (int i = 0; i < count; ++i) {
      float* row = nullptr;
      cudaMalloc(&row, 256);
      cudaMemset(row, 0, 256);
      rows_.push_back(row);
    }
  }

  bool run() {
    cudaSetDevice(device_);
    float** table = nullptr;
    cudaMalloc(&table, rows_.size() * sizeof(float*));
    cudaMemcpy(table, rows_.data(), rows_.size() * sizeof(float*), cudaMemcpyHostToDevice);
    scale<<<2, 64>>>(table, 2);  // FOUND
    return cudaDeviceSynchronize() == cudaSuccess;
  }

 private:
  std::vector<float*> rows_;
  int staging_, device_;
};

int main() {
  Batch batch(0, 1);
  batch.load(2);
  return batch.run() ? 0 : 1;
}

// A filter uploads its constants once for the process; threads run it on a device each.
#include <cuda_runtime.h>

#include <thread>
#include <vector>

__constant__ float weights[16];

__global__ void blur(float* values) { values[threadIdx.x] *= weights[threadIdx.x % 16]; }

class Filter {
 public:
  explicit Filter(const std::vector<float>& taps) {
#ifdef REPAIRED
    int devices = 0;
    cudaGetDeviceCount(&devices);
    for (int device = 0; device < devices; ++device) {
      cudaSetDevice(device);
      cudaMemcpyToSymbol(weights, taps.data(), taps.size() * sizeof(float));
    }
#else
    cudaMemcpyToSymbol(weights, taps.data(), taps.size() * sizeof(float));  // CAUSE
#endif
  }

  void run(int device) const {
    cudaSetDevice(device);
    float* values = nullptr;
    cudaMalloc(&values, 256);
    cudaMemset(values, 0, 256);
    blur<<<1, 64>>>(values);  // FOUND
    cudaDeviceSynchronize();
  }
};

int main() {
  const Filter filter(std::vector<float>(16, 1.0f));
  for (int device = 0; device < 2; ++device) {
    std::thread worker([&] { filter.run(device); });
    worker.join();
  }
  return 0;
}

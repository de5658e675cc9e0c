// A ring of devices: each opens access to the next one, and takes from the one before.
#include <cuda_runtime.h>

#include <vector>

__global__ void take(float* mine, const float* theirs) { mine[threadIdx.x] = theirs[threadIdx.x]; }

class Ring {
 public:
  explicit Ring(int size) : buffers_(size), size_(size) {
    for (int rank = 0; rank < size_; ++rank) {
      cudaSetDevice(rank);
      cudaMalloc(&buffers_[rank], 256);
      cudaMemset(buffers_[rank], 0, 256);
    }
    for (int rank = 0; rank + 1 < size_; ++rank) {
      const int next = rank + 1;
      int possible = 0;
      cudaSetDevice(rank);
      cudaDeviceCanAccessPeer(&possible, rank, next);
      if (possible) cudaDeviceEnablePeerAccess(next, 0);  // CAUSE
#ifdef REPAIRED
      cudaSetDevice(next);
      cudaDeviceEnablePeerAccess(rank, 0);
#endif
    }
  }

  bool pass() {
    for (int rank = 1; rank < size_; ++rank) {
      cudaSetDevice(rank);
      take<<<1, 64>>>(buffers_[rank], buffers_[rank - 1]);  // FOUND
      if (cudaDeviceSynchronize() != cudaSuccess) return false;
    }
    return true;
  }

 private:
  std::vector<float*> buffers_;
  int size_;
};

int main() {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  Ring ring(devices);
  return ring.pass() ? 0 : 1;
}

// Lanes have a stream of their own device each; their events are made in a vector before any device is chosen.
#include <cuda_runtime.h>

#include <vector>

struct Lane {
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  int device = 0;
};

int main() {
  std::vector<Lane> lanes(2);
  for (Lane& lane : lanes) {
    lane.device = static_cast<int>(&lane - lanes.data());
#ifdef REPAIRED
    cudaSetDevice(lane.device);
#endif
    cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming);  // CAUSE
  }
  for (Lane& lane : lanes) {
    cudaSetDevice(lane.device);
    cudaStreamCreate(&lane.stream);
  }
  for (const Lane& lane : lanes) {
    if (cudaEventRecord(lane.done, lane.stream) != cudaSuccess) return 1;  // FOUND
  }
  return 0;
}

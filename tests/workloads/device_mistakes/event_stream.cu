// Events made in one loop, streams in another that chooses the device.
#include <cuda_runtime.h>

int main() {
  const int devices = 2;
  cudaEvent_t done[devices];
  cudaStream_t streams[devices];
#ifdef REPAIRED
  for (int i = 0; i < devices; ++i) {
    cudaSetDevice(i);
    cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming);
  }
#else
  for (int i = 0; i < devices; ++i) {
    cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming);  // CAUSE
  }
#endif
  for (int i = 0; i < devices; ++i) {
    cudaSetDevice(i);
    cudaStreamCreate(&streams[i]);
    cudaEventRecord(done[i], streams[i]);  // FOUND
  }
  for (int i = 0; i < devices; ++i)
    if (cudaEventSynchronize(done[i]) != cudaSuccess) return 1;
  return cudaGetLastError();
}

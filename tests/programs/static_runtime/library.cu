// A library that a program is linked to or opens later: uses the runtime in its constructor already.
#include <cuda_runtime.h>

__global__ void in_library(int* data) { data[threadIdx.x] = 1; }

namespace {
struct AtLoad {
  int devices = -1;
  AtLoad() { cudaGetDeviceCount(&devices); }
};
const AtLoad at_load;
}  // namespace

extern "C" int devices_at_load() { return at_load.devices; }

// Launches with memory of device `owner` while device 0 is current.
extern "C" int launch(int owner) {
  int* data = nullptr;
  cudaSetDevice(owner);
  if (cudaError_t error = cudaMalloc(&data, 4096)) return error;
  cudaSetDevice(0);
  in_library<<<1, 32>>>(data);
  return cudaGetLastError();
}

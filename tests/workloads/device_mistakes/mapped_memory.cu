// Memory of two devices mapped as one range; access is set for the device that owns the part, not for the one that reads it all.
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void fill(float* values, size_t count) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) values[i] = 1;
}

static CUmemAllocationProp on(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

int main() {
  const int reader = 0, owner = 1;
  cudaSetDevice(reader);
  cudaFree(nullptr);
  const size_t bytes = 2 << 20;
  CUmemAllocationProp properties = on(owner);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address = 0;
  cuMemCreate(&handle, bytes, &properties, 0);
  cuMemAddressReserve(&address, bytes, 0, 0, 0);
  cuMemMap(address, bytes, 0, handle, 0);
  CUmemAccessDesc access[2] = {};
  access[0].location = properties.location;
  access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  access[1] = access[0];
  access[1].location.id = reader;
#ifdef REPAIRED
  cuMemSetAccess(address, bytes, access, 2);
#else
  cuMemSetAccess(address, bytes, access, 1);  // CAUSE
#endif
  float* values = reinterpret_cast<float*>(address);
  fill<<<1, 256>>>(values, bytes / sizeof(float));  // FOUND
  return cudaDeviceSynchronize();
}

// An arena maps memory of one device, and opens it to that device; its user launches elsewhere.
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void mark(float* values) { values[threadIdx.x] = 1; }

class Arena {
 public:
  Arena(int owner, int user) : user_device_(user) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {owner}};
    CUmemGenericAllocationHandle handle;
    cuMemCreate(&handle, bytes_, &properties, 0);
    cuMemAddressReserve(&address_, bytes_, 0, 0, 0);
    cuMemMap(address_, bytes_, 0, handle, 0);
    open_to(owner);
#ifdef REPAIRED
    open_to(user);
#endif
  }

  void open_to(int device) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    cuMemSetAccess(address_, bytes_, &access, 1);  // CAUSE
  }

  bool use() {
    cudaSetDevice(user_device_);
    float* values = reinterpret_cast<float*>(address_);
    mark<<<1, 64>>>(values);  // FOUND
    return cudaDeviceSynchronize() == cudaSuccess;
  }

 private:
  size_t bytes_ = 2 << 20;
  CUdeviceptr address_ = 0;
  int user_device_;
};

int main() {
  cudaSetDevice(0);
  cudaFree(nullptr);
  Arena arena(1, 0);
  return arena.use() ? 0 : 1;
}

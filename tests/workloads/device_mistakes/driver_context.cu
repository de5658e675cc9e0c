// Contexts of the driver's API: memory was allocated while the other one was current.
#include <cuda.h>
#include <cuda_runtime.h>

const char* const kSource =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry increment(.param .u64 at, .param .u32 count) {\n"
    ".reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    "ld.param.u64 %rd1, [at]; cvta.to.global.u64 %rd2, %rd1;\n"
    "ld.global.u32 %r1, [%rd2]; add.s32 %r1, %r1, 1; st.global.u32 [%rd2], %r1; ret; }\n";

int main() {
  CUcontext contexts[2];
  CUdevice device;
  cuInit(0);
  for (int i = 0; i < 2; ++i) {
    cuDeviceGet(&device, i);
    cuDevicePrimaryCtxRetain(&contexts[i], device);
  }
  CUmodule module;
  CUfunction increment;
  CUdeviceptr values;
  unsigned count = 1;
  cuCtxSetCurrent(contexts[0]);
#ifdef REPAIRED
  cuCtxSetCurrent(contexts[1]);
#endif
  cuMemAlloc(&values, 4096);  // CAUSE
  cuMemsetD32(values, 0, 1024);
  cuCtxSetCurrent(contexts[1]);
  cuModuleLoadData(&module, kSource);
  cuModuleGetFunction(&increment, module, "increment");
  void* args[] = {&values, &count};
  cuLaunchKernel(increment, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr);  // FOUND
  return cuCtxSynchronize();
}

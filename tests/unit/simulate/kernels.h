// Kernels to launch where there is no compiler: PTX text that the stub reads and does not run.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

inline constexpr char kKernels[] = R"(
.version 8.0
.target sm_75
.address_size 64
.global .align 4 .b8 counter[28];
// reads its pointer and its number, not its third parameter
.visible .entry store(.param .u64 store_param_0, .param .u32 store_param_1, .param .u64 store_param_2)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [store_param_0];
  ld.param.u32 %r1, [store_param_1];
  ret;
}
.visible .entry packed(.param .align 8 .b8 packed_param_0[24])
.maxntid 256, 1, 1
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [packed_param_0+8];
  ret;
}
.visible .entry nothing() { ret; }
)";

// One of them, loaded anew.
inline CUfunction loaded_kernel(const char* name) {
  CUmodule module;
  CUfunction f = nullptr;
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
  return f;
}

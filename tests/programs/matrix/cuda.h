// CUDA as the matrix calls it: every function through a pointer, so that a pass can come by the functions in a way of
// its own.
#pragma once

#define __CUDA_API_VERSION_INTERNAL  // cuda.h then declares every symbol under its own name
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the oldest ways to launch are deprecated, not gone

extern "C" {
// In no public header.
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
// For a default stream of each thread.
cudaError_t cudaLaunchKernel_ptsz(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t*, const void*, void**);
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaMallocAsync_ptsz(void**, size_t, cudaStream_t);
cudaError_t cudaMallocFromPoolAsync_ptsz(void**, size_t, cudaMemPool_t, cudaStream_t);
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                             void**, void**);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig*, CUfunction, void**, void**);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, CUstream, void**);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr*, size_t, CUstream);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr*, size_t, CUmemoryPool, CUstream);
}

namespace matrix {

struct Functions {
#define RUNTIME(symbol) decltype(&::symbol) symbol = nullptr;
#define DRIVER(symbol) decltype(&::symbol) symbol = nullptr;
#include "tests/programs/matrix/functions.inc"
};
extern Functions cuda;

// A way to come by CUDA's functions. A pass of the matrix takes all of them in one way.
struct Way {
  const char* name;
  void (*fill)();  // the pointers in `cuda`
};
const std::vector<Way>& ways();

// Ends the program when a call did not succeed.
void check(int code, const char* what);
#define CHECK(call) ::matrix::check(static_cast<int>(call), #call)

}  // namespace matrix

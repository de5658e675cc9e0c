// Every function of the runtime API with its parameters: the headers', and those that compiled code calls, which are in
// no public header; their shapes follow from the calls that nvcc emits.
#pragma once

#include "simulate/cudart/runtime.h"

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_stub, const char* name, int thread_limit,
                            void* thread_id, void* block_id, void* block, void* grid, int* warp_size);
void __cudaRegisterVar(void** handle, char* shadow, char* address, const char* name, int external, size_t size,
                       int constant, int global);
void __cudaRegisterManagedVar(void** handle, void** shadow, char* address, const char* name, int external, size_t size,
                              int constant, int global);
void __cudaRegisterHostVar(void** handle, const char* name, char* shadow, size_t size);
void __cudaRegisterUnifiedTable(void** handle, void* table);
char __cudaInitModule(void** handle);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream);

// Of cuda_profiler_api.h, which the wheels leave out.
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);

#if CUDART_VERSION < 13000
// Its header knows these under a number only.
#undef cudaStreamGetCaptureInfo
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*);
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                                  cudaGraph_t*, const cudaGraphNode_t**, size_t*);
#endif

}  // extern "C"
#pragma GCC visibility pop

namespace devtrace::simulate::runtime {

// Of a kernel behind a host stub or a cudaKernel_t, without loading anything; null when it is neither.
const char* name_of(const void* handle);

}  // namespace devtrace::simulate::runtime

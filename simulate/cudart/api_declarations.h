// Every function of the runtime API with its parameters: the headers', and those that compiled code calls, which are in
// no public header. Their shapes follow from the calls that nvcc emits.
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

#if CUDART_VERSION >= 13000 && CUDART_VERSION < 13020
// What CUDA 13.1 and 13.2 brought: files that were linked to their static runtime have it inside (newer.names).
typedef struct cudaExecutionContext_st* cudaExecutionContext_t;
cudaError_t CUDARTAPI cudaDeviceGetExecutionCtx(cudaExecutionContext_t* context, int device);
cudaError_t CUDARTAPI cudaExecutionCtxDestroy(cudaExecutionContext_t context);
cudaError_t CUDARTAPI cudaExecutionCtxGetDevice(int* device, cudaExecutionContext_t context);
cudaError_t CUDARTAPI cudaExecutionCtxGetId(cudaExecutionContext_t context, unsigned long long* id);
cudaError_t CUDARTAPI cudaExecutionCtxRecordEvent(cudaExecutionContext_t context, cudaEvent_t event);
cudaError_t CUDARTAPI cudaExecutionCtxStreamCreate(cudaStream_t* stream, cudaExecutionContext_t context,
                                                   unsigned int flags, int priority);
cudaError_t CUDARTAPI cudaExecutionCtxSynchronize(cudaExecutionContext_t context);
cudaError_t CUDARTAPI cudaExecutionCtxWaitEvent(cudaExecutionContext_t context, cudaEvent_t event);
cudaError_t CUDARTAPI cudaFuncGetParamCount(const void* stub, size_t* count);
cudaError_t CUDARTAPI cudaGraphExecGetId(cudaGraphExec_t graph, unsigned int* id);
cudaError_t CUDARTAPI cudaGraphGetId(cudaGraph_t graph, unsigned int* id);
cudaError_t CUDARTAPI cudaGraphNodeGetLocalId(cudaGraphNode_t node, unsigned int* id);
cudaError_t CUDARTAPI cudaGraphNodeGetToolsId(cudaGraphNode_t node, unsigned long long* id);
cudaError_t CUDARTAPI cudaLaunchHostFunc_v2(cudaStream_t stream, cudaHostFn_t function, void* data, unsigned int mode);
cudaError_t CUDARTAPI cudaMemcpyWithAttributesAsync(void* to, const void* from, size_t size,
                                                    struct cudaMemcpyAttributes* attributes, cudaStream_t stream);
#endif

#if CUDART_VERSION < 13000
// Its header knows these under a number only.
#undef cudaStreamGetCaptureInfo
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*);
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                                  cudaGraph_t*, const cudaGraphNode_t**, size_t*);
#endif

}  // extern "C"
#pragma GCC visibility pop

namespace devtrace::simulate::cudart {

// Of a kernel behind a host stub or a cudaKernel_t, without loading anything; null when it is neither.
const char* name_of(const void* handle);

}  // namespace devtrace::simulate::cudart

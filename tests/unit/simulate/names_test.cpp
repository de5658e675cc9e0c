// What lies behind names that no header maps to any more: the per-thread variants, older parameters, stream memory
// operations, and graphs inside graphs.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/unit/simulate/kernels.h"
#include "tests/unit/simulate/on_a_stream.h"

extern "C" {
cudaError_t cudaMemsetAsync_ptsz(void*, int, size_t, cudaStream_t);
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t*, const void*, void**);
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t, cudaHostFn_t, void*);
}

namespace {

class Names : public OnAStream {
 protected:
  CUdeviceptr address(int i) { return reinterpret_cast<CUdeviceptr>(device_ + i); }
};

TEST_F(Names, PerThreadVariantsMeanTheThreadsOwnStream) {
  // The thread's stream is held up: what _ptsz puts on it waits, what the plain name puts elsewhere does not.
  Gate gate;
  ASSERT_EQ(cudaLaunchHostFunc_ptsz(nullptr, Gate::wait, &gate), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  ASSERT_EQ(cudaMemsetAsync_ptsz(device_, 1, 4, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_ + 1, 1, 4, stream_), cudaSuccess);
  int first;
  ASSERT_EQ(cudaMemcpyAsync(&first, device_, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(first, 0);
  gate.open = true;
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(at(0), 0x01010101);
  EXPECT_EQ(at(1), 0x01010101);
}

TEST_F(Names, AStreamThatIsNamedStaysForPerThreadVariants) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status;
  EXPECT_EQ(cudaStreamIsCapturing_ptsz(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaStreamIsCapturing_ptsz(nullptr, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Names, PerThreadLaunchesByConfiguration) {
  CUmodule module;
  CUfunction f;
  ASSERT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&f, module, "nothing"), CUDA_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1, 1, 1);
  EXPECT_EQ(cudaLaunchKernelExC_ptsz(&config, f, nullptr), cudaSuccess);
  EXPECT_EQ(config.stream, nullptr) << "the caller's own is left alone";
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(cudaStreamPerThread, &graph), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Names, OlderParametersReachTheSameFunctions) {
  CUdeviceptr managed;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPrefetchAsync(managed, 4096, 1, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPrefetchAsync(managed, 4096, CU_DEVICE_CPU, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPrefetchAsync(managed, 4096, 9, nullptr), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemAdvise(managed, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 9), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemAdvise(managed, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1), CUDA_SUCCESS);

  CUgraph graph;
  CUgraphNode a, b, found;
  size_t count = 1;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&a, graph, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&b, graph, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddDependencies(graph, &a, &b, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphNodeGetDependencies(b, &found, &count), CUDA_SUCCESS);
  EXPECT_EQ(found, a);
  EXPECT_EQ(cuGraphRemoveDependencies(graph, &a, &b, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0u);
  CUgraphExec exec;
  char log[8];
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, &found, log, sizeof log), CUDA_SUCCESS);
  CUgraphExecUpdateResult result;
  EXPECT_EQ(cuGraphExecUpdate(exec, graph, &found, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, CU_GRAPH_EXEC_UPDATE_SUCCESS);

  // A program of CUDA 11 asks by name, and gets what it was compiled for.
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  ASSERT_EQ(cuGetProcAddress_v2("cuMemPrefetchAsync", &function, 11000, 0, &status), CUDA_SUCCESS);
  auto prefetch = reinterpret_cast<CUresult (*)(CUdeviceptr, size_t, CUdevice, CUstream)>(function);
  EXPECT_EQ(prefetch(managed, 4096, 9, nullptr), CUDA_ERROR_INVALID_DEVICE);
  CUcontext before, made;
  ASSERT_EQ(cuCtxGetCurrent(&before), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxCreate_v2(&made, 0, 1), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuCtxDestroy_v2(made), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(before), CUDA_SUCCESS);
}

TEST_F(Names, AStreamWaitsForAWord) {
  cudaStream_t writer;
  ASSERT_EQ(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cuStreamWaitValue32_v2(stream_, address(0), 5, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  ASSERT_EQ(cudaMemsetAsync(device_ + 1, 1, 4, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  ASSERT_EQ(cuStreamWriteValue32_v2(writer, address(0), 4, 0), CUDA_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(writer), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady) << "4 is less than 5";
  CUstreamBatchMemOpParams batch[2] = {};
  batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  batch[0].writeValue.address = address(0);
  batch[0].writeValue.value = 6;
  batch[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  batch[1].writeValue.address = address(2);
  batch[1].writeValue.value64 = 1ull << 32;
  ASSERT_EQ(cuStreamBatchMemOp_v2(writer, 2, batch, 0), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(at(1), 0x01010101);
  EXPECT_EQ(cudaStreamSynchronize(writer), cudaSuccess);
  EXPECT_EQ(at(3), 1);
  EXPECT_EQ(cuStreamWriteValue32_v2(writer, address(0) + 2, 0, 0), CUDA_ERROR_INVALID_VALUE) << "not aligned";
  EXPECT_EQ(cudaStreamDestroy(writer), cudaSuccess);
}

TEST_F(Names, AGraphLaunchedInACaptureBecomesItsChild) {
  cudaGraph_t inner, outer;
  cudaGraphExec_t inner_exec, exec;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 1, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(device_ + 1, device_, 4, cudaMemcpyDeviceToDevice, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &inner), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&inner_exec, inner, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(inner_exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(device_ + 2, device_ + 1, 4, cudaMemcpyDeviceToDevice, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &outer), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, outer, 0), cudaSuccess);
  EXPECT_EQ(at(1), 0) << "nothing was done yet";
  // What was captured lives on by itself.
  ASSERT_EQ(cudaGraphExecDestroy(inner_exec), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(inner), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(at(2), 0x01010101);
  size_t count = 2;
  cudaGraphNode_t nodes[2];
  ASSERT_EQ(cudaGraphGetNodes(outer, nodes, &count), cudaSuccess);
  ASSERT_EQ(count, 2u);
  cudaGraphNodeType type;
  ASSERT_EQ(cudaGraphNodeGetType(nodes[0], &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeGraph);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(outer), cudaSuccess);
}

TEST_F(Names, NodesByTheirGeneralDescription) {
  cudaGraph_t graph;
  cudaGraphNode_t first, second;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  cudaGraphNodeParams p = {};
  p.type = cudaGraphNodeTypeMemset;
  p.memset.dst = device_;
  p.memset.value = 7;
  p.memset.elementSize = 4;
  p.memset.width = p.memset.height = 1;
  ASSERT_EQ(cudaGraphAddNode(&first, graph, nullptr, nullptr, 0, &p), cudaSuccess);
  p = {};
  p.type = cudaGraphNodeTypeMemcpy;
  p.memcpy.copyParams.srcPtr = {device_, 4, 4, 1};
  p.memcpy.copyParams.dstPtr = {device_ + 1, 4, 4, 1};
  p.memcpy.copyParams.extent = {4, 1, 1};
  p.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
  ASSERT_EQ(cudaGraphAddNode(&second, graph, &first, nullptr, 1, &p), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(at(1), 7);
  p.type = cudaGraphNodeTypeKernel;
  p.kernel.func = device_;
  EXPECT_EQ(cudaGraphAddNode(&second, graph, nullptr, nullptr, 0, &p), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Names, KernelsOutOfALibraryOfTheProgramsOwn) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  unsigned count = 0;
  ASSERT_EQ(cudaLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);
  EXPECT_EQ(cudaLibraryGetKernelCount(&count, library), cudaSuccess);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "missing"), cudaErrorSymbolNotFound);
  ASSERT_EQ(cudaLibraryGetKernel(&kernel, library, "nothing"), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, stream_), cudaSuccess);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
}

// Says what an unsupported function says, once.
TEST_F(Names, WhatIsNotSimulatedIsSaidOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaMemRangeGetAttribute(nullptr, 0, cudaMemRangeAttributeReadMostly, nullptr, 0), cudaErrorNotSupported);
  EXPECT_EQ(cudaMemRangeGetAttribute(nullptr, 0, cudaMemRangeAttributeReadMostly, nullptr, 0), cudaErrorNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "devtrace: not simulated: cudaMemRangeGetAttribute\n");
}

}  // namespace

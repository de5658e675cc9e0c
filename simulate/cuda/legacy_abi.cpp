// Functions whose parameters changed: cuda.h gives their plain names to the newest, and these are the older symbols
// that programs of CUDA 12 and before look up. Each is the newer function without what was added.
#define __CUDA_API_VERSION_INTERNAL  // the header then declares every symbol under its own name
#include <cstring>

#include "simulate/cuda/api.h"

namespace {

CUmemLocation location(CUdevice device) {
  CUmemLocation l = {};
  l.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  l.id = device == CU_DEVICE_CPU ? 0 : device;
  return l;
}

// What the newer structure has more stands at its end.
CUDA_KERNEL_NODE_PARAMS with_context(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS now = {};
  std::memcpy(&now, &p, sizeof p);
  return now;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemAdvise(CUdeviceptr pointer, size_t count, CUmem_advise advice, CUdevice device) {
  return cuMemAdvise_v2(pointer, count, advice, location(device));
}
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr pointer, size_t count, CUdevice device, CUstream stream) {
  return cuMemPrefetchAsync_v2(pointer, count, location(device), 0, stream);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                                   unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}
CUresult CUDAAPI cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                CUgraphNodeParams* p) {
  return cuGraphAddNode_v2(node, graph, d, nullptr, n, p);
}
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                      const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS now = with_context(*p);
  return cuGraphAddKernelNode_v2(node, graph, d, n, &now);
}
CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS now = with_context(*p);
  return cuGraphKernelNodeSetParams_v2(node, &now);
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS now = with_context(*p);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &now);
}
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, out, nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, out, nullptr, count);
}
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* failed,
                                   CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info = {};
  CUresult e = cuGraphExecUpdate_v2(exec, graph, &info);
  if (failed) *failed = info.errorNode;
  if (result) *result = info.result;
  return e;
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* failed, char* log, size_t size) {
  if (failed) *failed = nullptr;
  if (log && size) *log = 0;
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* failed, char* log, size_t size) {
  return cuGraphInstantiate(exec, graph, failed, log, size);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(context, nullptr, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(context, nullptr, flags, device);
}
CUresult CUDAAPI cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(context, nullptr, flags, device);
}
// A use more or less; here a context has one, that of whoever made it.
CUresult CUDAAPI cuCtxAttach(CUcontext* context, unsigned int flags) {
  if (!context || flags) return CUDA_ERROR_INVALID_VALUE;
  REQUIRE_CONTEXT(now);
  *context = now;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxDetach(CUcontext context) {
  return cuCtxDestroy_v2(context);
}

// Of cudaProfiler.h, which the wheels leave out.
#pragma GCC visibility push(default)
CUresult CUDAAPI cuProfilerStart(void) {
  REQUIRE_CONTEXT(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuProfilerStop(void) {
  REQUIRE_CONTEXT(context);
  return CUDA_SUCCESS;
}

#pragma GCC visibility pop

}  // extern "C"

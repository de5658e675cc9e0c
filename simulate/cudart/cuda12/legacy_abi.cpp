// What CUDA 12's runtime exports beside the functions that CUDA 13 has: plain names with the parameters of older
// releases, and the last of the cudaThread* family. Not part of a CUDA 13 build.
#include "simulate/cudart/api_declarations.h"

// After the declarations, whose names it takes back.
#include "simulate/common/undo_aliases.h"

using namespace devtrace::simulate::cudart;

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

cudaMemLocation location(int device) {
  cudaMemLocation l = {};
  l.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  l.id = device == cudaCpuDeviceId ? 0 : device;
  return l;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMemAdvise(const void* pointer, size_t count, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise_v2(pointer, count, advice, location(device));
}
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void* pointer, size_t count, int device, cudaStream_t stream) {
  return cudaMemPrefetchAsync_v2(pointer, count, location(device), 0, stream);
}

#pragma GCC visibility push(default)
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** dependencies, size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
#pragma GCC visibility pop
cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                          size_t count, unsigned int flags) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}

cudaError_t CUDARTAPI cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, count);
}
cudaError_t CUDARTAPI cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out, size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, out, nullptr, count);
}
cudaError_t CUDARTAPI cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* out, size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, out, nullptr, count);
}
cudaError_t CUDARTAPI cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
cudaError_t CUDARTAPI cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, size_t count) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}
cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d, size_t n,
                                       cudaGraphNodeParams* p) {
  return cudaGraphAddNode_v2(node, graph, d, nullptr, n, p);
}

cudaError_t CUDARTAPI cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

cudaError_t CUDARTAPI cudaThreadExit(void) {
  return cudaDeviceReset();
}
cudaError_t CUDARTAPI cudaThreadSynchronize(void) {
  return cudaDeviceSynchronize();
}
cudaError_t CUDARTAPI cudaThreadSetLimit(cudaLimit limit, size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
cudaError_t CUDARTAPI cudaThreadGetLimit(size_t* value, cudaLimit limit) {
  return cudaDeviceGetLimit(value, limit);
}
cudaError_t CUDARTAPI cudaThreadGetCacheConfig(cudaFuncCache* config) {
  return cudaDeviceGetCacheConfig(config);
}
cudaError_t CUDARTAPI cudaThreadSetCacheConfig(cudaFuncCache config) {
  return cudaDeviceSetCacheConfig(config);
}

}  // extern "C"

// Graph nodes by their general description, and the events of event nodes, in the runtime API.
#include <cstring>

#include "simulate/cudart/registry.h"
#include "simulate/cudart/runtime.h"

using namespace devtrace::simulate::cudart;

#define FORWARD(...) \
  CALL(ensure());    \
  return done(__VA_ARGS__)

namespace {

// Both structs are a type and a union of the same size; kernels and copies differ inside.
cudaError_t describe(const cudaGraphNodeParams* p, CUgraphNodeParams* d) {
  static_assert(sizeof *p == sizeof *d);
  if (!p) return cudaErrorInvalidValue;
  std::memcpy(static_cast<void*>(d), p, sizeof *d);
  if (p->type == cudaGraphNodeTypeMemcpy) {
    std::memset(static_cast<void*>(&d->memcpy), 0, sizeof d->memcpy);
    return devtrace::simulate::cudart::convert(p->memcpy.copyParams, &d->memcpy.copyParams);
  }
  if (p->type != cudaGraphNodeTypeKernel) return cudaSuccess;
  CUkernel kernel = kernel_of(p->kernel.func);
  const char* name;
  if (!kernel && cuKernelGetName(&name, static_cast<CUkernel>(p->kernel.func)) == CUDA_SUCCESS)
    kernel = static_cast<CUkernel>(p->kernel.func);
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  std::memset(static_cast<void*>(&d->kernel), 0, sizeof d->kernel);
  d->kernel.func = reinterpret_cast<CUfunction>(kernel);
  d->kernel.gridDimX = p->kernel.gridDim.x;
  d->kernel.gridDimY = p->kernel.gridDim.y;
  d->kernel.gridDimZ = p->kernel.gridDim.z;
  d->kernel.blockDimX = p->kernel.blockDim.x;
  d->kernel.blockDimY = p->kernel.blockDim.y;
  d->kernel.blockDimZ = p->kernel.blockDim.z;
  d->kernel.sharedMemBytes = p->kernel.sharedMemBytes;
  d->kernel.kernelParams = p->kernel.kernelParams;
  d->kernel.extra = p->kernel.extra;
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                       const cudaGraphEdgeData*, size_t n, cudaGraphNodeParams* p) {
  CUgraphNodeParams general;
  CALL(ensure());
  CALL(describe(p, &general));
  CALL(cuGraphAddNode(node, graph, d, nullptr, n, &general));
  if (p->type == cudaGraphNodeTypeMemAlloc) p->alloc.dptr = reinterpret_cast<void*>(general.alloc.dptr);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* p) {
  CUgraphNodeParams general;
  CALL(ensure());
  CALL(describe(p, &general));
  return done(cuGraphNodeSetParams(node, &general));
}
cudaError_t CUDARTAPI cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* p) {
  CUgraphNodeParams general;
  CALL(ensure());
  CALL(describe(p, &general));
  return done(cuGraphExecNodeSetParams(exec, node, &general));
}

cudaError_t CUDARTAPI cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  FORWARD(cuGraphEventRecordNodeGetEvent(node, event));
}
cudaError_t CUDARTAPI cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  FORWARD(cuGraphEventRecordNodeSetEvent(node, event));
}
cudaError_t CUDARTAPI cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  FORWARD(cuGraphEventWaitNodeGetEvent(node, event));
}
cudaError_t CUDARTAPI cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  FORWARD(cuGraphEventWaitNodeSetEvent(node, event));
}
cudaError_t CUDARTAPI cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                           cudaEvent_t event) {
  FORWARD(cuGraphExecEventRecordNodeSetEvent(exec, node, event));
}
cudaError_t CUDARTAPI cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                         cudaEvent_t event) {
  FORWARD(cuGraphExecEventWaitNodeSetEvent(exec, node, event));
}

}  // extern "C"

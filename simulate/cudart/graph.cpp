// Graphs of the runtime API, by the driver's. Node types, handles and most structs are the same on both sides.
#include <cstring>
#include <utility>

#include "simulate/cudart/registry.h"
#include "simulate/cudart/runtime.h"

using namespace devtrace::simulate::cudart;

namespace {

template <typename To, typename From>
To* as(From* pointer) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<To*>(pointer);
}

// Both APIs have two structs of a kernel's node, of like fields.
template <class From, class To>
cudaError_t convert_kernel(const From& p, To* k) {
  *k = {};
  CUkernel kernel = kernel_of(p.func);
  const char* name;
  if (!kernel && cuKernelGetName(&name, static_cast<CUkernel>(p.func)) == CUDA_SUCCESS)
    kernel = static_cast<CUkernel>(p.func);
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  k->func = reinterpret_cast<CUfunction>(kernel);
  k->gridDimX = p.gridDim.x;
  k->gridDimY = p.gridDim.y;
  k->gridDimZ = p.gridDim.z;
  k->blockDimX = p.blockDim.x;
  k->blockDimY = p.blockDim.y;
  k->blockDimZ = p.blockDim.z;
  k->sharedMemBytes = p.sharedMemBytes;
  k->kernelParams = p.kernelParams;
  k->extra = p.extra;
  return cudaSuccess;
}

cudaError_t convert(const cudaKernelNodeParams* p, CUDA_KERNEL_NODE_PARAMS* k) {
  return p ? convert_kernel(*p, k) : cudaErrorInvalidValue;
}

// Both structs are a type and a union of the same size; kernels and copies differ inside.
cudaError_t describe(const cudaGraphNodeParams* p, CUgraphNodeParams* d) {
  static_assert(sizeof *p == sizeof *d);
  if (!p) return cudaErrorInvalidValue;
  std::memcpy(static_cast<void*>(d), p, sizeof *d);
  if (p->type == cudaGraphNodeTypeMemcpy) {
    std::memset(static_cast<void*>(&d->memcpy), 0, sizeof d->memcpy);
    return devtrace::simulate::cudart::convert(p->memcpy.copyParams, &d->memcpy.copyParams);
  }
  if (p->type == cudaGraphNodeTypeConditional) d->conditional.ctx = nullptr;  // the runtime's has no such member
  return p->type == cudaGraphNodeTypeKernel ? convert_kernel(p->kernel, &d->kernel) : cudaSuccess;
}

CUDA_MEMCPY3D line(void* to, const void* from, size_t count) {
  CUDA_MEMCPY3D c = {};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  c.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  c.WidthInBytes = count;
  c.Height = c.Depth = 1;
  return c;
}

cudaError_t part(const void* symbol, size_t count, size_t offset, void** pointer) {
  CUdeviceptr base;
  size_t size;
  if (cudaError_t e = variable_of(symbol, &base, &size)) return e;
  if (offset > size || count > size - offset) return cudaErrorInvalidValue;
  *pointer = reinterpret_cast<void*>(base + offset);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  FORWARD(cuGraphCreate(graph, flags));
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  FORWARD(cuGraphDestroy(graph));
}
cudaError_t CUDARTAPI cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  FORWARD(cuGraphClone(clone, graph));
}
cudaError_t CUDARTAPI cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                                       unsigned int initial, unsigned int flags) {
  static_assert(sizeof(cudaGraphConditionalHandle) == sizeof(CUgraphConditionalHandle));
  FORWARD(cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(handle), graph, nullptr, initial,
                                         flags));
}
cudaError_t CUDARTAPI cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  FORWARD(cuGraphNodeFindInClone(node, original, clone));
}

cudaError_t CUDARTAPI cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                             size_t n, const cudaKernelNodeParams* p) {
  CALL(ensure());
  CUDA_KERNEL_NODE_PARAMS k;
  CALL(convert(p, &k));
  return done(cuGraphAddKernelNode(node, graph, d, n, &k));
}
cudaError_t CUDARTAPI cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  CALL(ensure());
  CUDA_KERNEL_NODE_PARAMS k;
  CALL(convert(p, &k));
  return done(cuGraphKernelNodeSetParams(node, &k));
}
cudaError_t CUDARTAPI cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* p) {
  CALL(ensure());
  CUDA_KERNEL_NODE_PARAMS k;
  CALL(convert(p, &k));
  return done(cuGraphExecKernelNodeSetParams(exec, node, &k));
}
cudaError_t CUDARTAPI cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
  CALL(ensure());
  if (!p) return done(cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS k;
  CALL(cuGraphKernelNodeGetParams(node, &k));
  std::memset(static_cast<void*>(p), 0, sizeof *p);
  p->func = k.func;
  p->gridDim = dim3(k.gridDimX, k.gridDimY, k.gridDimZ);
  p->blockDim = dim3(k.blockDimX, k.blockDimY, k.blockDimZ);
  p->sharedMemBytes = k.sharedMemBytes;
  p->kernelParams = k.kernelParams;
  p->extra = k.extra;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  FORWARD(cuGraphKernelNodeCopyAttributes(to, from));
}
cudaError_t CUDARTAPI cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                                      const cudaKernelNodeAttrValue* value) {
  FORWARD(cuGraphKernelNodeSetAttribute(node, static_cast<CUkernelNodeAttrID>(attribute),
                                        as<const CUkernelNodeAttrValue>(value)));
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                             size_t n, const cudaMemcpy3DParms* p) {
  CALL(ensure());
  CUDA_MEMCPY3D c;
  CALL(p ? convert(*p, &c) : cudaErrorInvalidValue);
  return done(cuGraphAddMemcpyNode(node, graph, d, n, &c, nullptr));
}
cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  CALL(ensure());
  CUDA_MEMCPY3D c;
  CALL(p ? convert(*p, &c) : cudaErrorInvalidValue);
  return done(cuGraphMemcpyNodeSetParams(node, &c));
}
cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* p) {
  CALL(ensure());
  CUDA_MEMCPY3D c;
  CALL(p ? convert(*p, &c) : cudaErrorInvalidValue);
  return done(cuGraphExecMemcpyNodeSetParams(exec, node, &c, nullptr));
}
cudaError_t CUDARTAPI cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                               size_t n, void* to, const void* from, size_t count, cudaMemcpyKind) {
  CUDA_MEMCPY3D c = line(to, from, count);
  FORWARD(cuGraphAddMemcpyNode(node, graph, d, n, &c, nullptr));
}
cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t count,
                                                     cudaMemcpyKind) {
  CUDA_MEMCPY3D c = line(to, from, count);
  FORWARD(cuGraphMemcpyNodeSetParams(node, &c));
}
cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                         const void* from, size_t count, cudaMemcpyKind) {
  CUDA_MEMCPY3D c = line(to, from, count);
  FORWARD(cuGraphExecMemcpyNodeSetParams(exec, node, &c, nullptr));
}
cudaError_t CUDARTAPI cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                                     size_t n, const void* symbol, const void* from, size_t count,
                                                     size_t offset, cudaMemcpyKind kind) {
  void* to;
  CALL(part(symbol, count, offset, &to));
  return cudaGraphAddMemcpyNode1D(node, graph, d, n, to, from, count, kind);
}
cudaError_t CUDARTAPI cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                       const cudaGraphNode_t* d, size_t n, void* to, const void* symbol,
                                                       size_t count, size_t offset, cudaMemcpyKind kind) {
  void* from;
  CALL(part(symbol, count, offset, &from));
  return cudaGraphAddMemcpyNode1D(node, graph, d, n, to, from, count, kind);
}

cudaError_t CUDARTAPI cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                             size_t n, const cudaMemsetParams* p) {
  FORWARD(cuGraphAddMemsetNode(node, graph, d, n, as<const CUDA_MEMSET_NODE_PARAMS>(p), nullptr));
}
cudaError_t CUDARTAPI cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* p) {
  FORWARD(cuGraphMemsetNodeGetParams(node, as<CUDA_MEMSET_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* p) {
  FORWARD(cuGraphMemsetNodeSetParams(node, as<const CUDA_MEMSET_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemsetParams* p) {
  FORWARD(cuGraphExecMemsetNodeSetParams(exec, node, as<const CUDA_MEMSET_NODE_PARAMS>(p), nullptr));
}

cudaError_t CUDARTAPI cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d, size_t n,
                                           const cudaHostNodeParams* p) {
  FORWARD(cuGraphAddHostNode(node, graph, d, n, as<const CUDA_HOST_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* p) {
  FORWARD(cuGraphHostNodeGetParams(node, as<CUDA_HOST_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* p) {
  FORWARD(cuGraphHostNodeSetParams(node, as<const CUDA_HOST_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const cudaHostNodeParams* p) {
  FORWARD(cuGraphExecHostNodeSetParams(exec, node, as<const CUDA_HOST_NODE_PARAMS>(p)));
}

cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                       const cudaGraphEdgeData*, size_t n, cudaGraphNodeParams* p) {
  CUgraphNodeParams general;
  CALL(ensure());
  CALL(describe(p, &general));
  CALL(cuGraphAddNode(node, graph, d, nullptr, n, &general));
  if (p->type == cudaGraphNodeTypeMemAlloc) p->alloc.dptr = reinterpret_cast<void*>(general.alloc.dptr);
  if (p->type == cudaGraphNodeTypeConditional) p->conditional.phGraph_out = general.conditional.phGraph_out;
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

cudaError_t CUDARTAPI cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                                 size_t n, cudaGraph_t child) {
  FORWARD(cuGraphAddChildGraphNode(node, graph, d, n, child));
}
cudaError_t CUDARTAPI cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  FORWARD(cuGraphChildGraphNodeGetGraph(node, graph));
}
cudaError_t CUDARTAPI cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                           cudaGraph_t child) {
  FORWARD(cuGraphExecChildGraphNodeSetParams(exec, node, child));
}
cudaError_t CUDARTAPI cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                            size_t n) {
  FORWARD(cuGraphAddEmptyNode(node, graph, d, n));
}
cudaError_t CUDARTAPI cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                                  size_t n, cudaEvent_t event) {
  FORWARD(cuGraphAddEventRecordNode(node, graph, d, n, event));
}
cudaError_t CUDARTAPI cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                                size_t n, cudaEvent_t event) {
  FORWARD(cuGraphAddEventWaitNode(node, graph, d, n, event));
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
cudaError_t CUDARTAPI cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                               size_t n, cudaMemAllocNodeParams* p) {
  FORWARD(cuGraphAddMemAllocNode(node, graph, d, n, as<CUDA_MEM_ALLOC_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* p) {
  FORWARD(cuGraphMemAllocNodeGetParams(node, as<CUDA_MEM_ALLOC_NODE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* d,
                                              size_t n, void* pointer) {
  FORWARD(cuGraphAddMemFreeNode(node, graph, d, n, reinterpret_cast<CUdeviceptr>(pointer)));
}
cudaError_t CUDARTAPI cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  FORWARD(cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(pointer)));
}

cudaError_t CUDARTAPI cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  FORWARD(cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)));
}
cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  FORWARD(cuGraphGetNodes(graph, nodes, count));
}
cudaError_t CUDARTAPI cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  FORWARD(cuGraphGetRootNodes(graph, nodes, count));
}
cudaError_t CUDARTAPI cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        cudaGraphEdgeData* data, size_t* count) {
  FORWARD(cuGraphGetEdges(graph, from, to, as<CUgraphEdgeData>(data), count));
}
cudaError_t CUDARTAPI cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out, cudaGraphEdgeData* data,
                                                   size_t* count) {
  FORWARD(cuGraphNodeGetDependencies(node, out, as<CUgraphEdgeData>(data), count));
}
cudaError_t CUDARTAPI cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* out,
                                                     cudaGraphEdgeData* data, size_t* count) {
  FORWARD(cuGraphNodeGetDependentNodes(node, out, as<CUgraphEdgeData>(data), count));
}
cudaError_t CUDARTAPI cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData* data, size_t count) {
  FORWARD(cuGraphAddDependencies(graph, from, to, as<const CUgraphEdgeData>(data), count));
}
cudaError_t CUDARTAPI cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, const cudaGraphEdgeData* data,
                                                  size_t count) {
  FORWARD(cuGraphRemoveDependencies(graph, from, to, as<const CUgraphEdgeData>(data), count));
}
cudaError_t CUDARTAPI cudaGraphDestroyNode(cudaGraphNode_t node) {
  FORWARD(cuGraphDestroyNode(node));
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}
cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                    unsigned long long flags) {
  FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}
cudaError_t CUDARTAPI cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                     cudaGraphInstantiateParams* p) {
  FORWARD(cuGraphInstantiateWithParams(exec, graph, as<CUDA_GRAPH_INSTANTIATE_PARAMS>(p)));
}
cudaError_t CUDARTAPI cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  cuuint64_t wide = 0;
  CALL(ensure());
  CALL(cuGraphExecGetFlags(exec, &wide));
  *flags = wide;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t exec) {
  FORWARD(cuGraphExecDestroy(exec));
}
cudaError_t CUDARTAPI cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                          cudaGraphExecUpdateResultInfo* result) {
  FORWARD(cuGraphExecUpdate(exec, graph, as<CUgraphExecUpdateResultInfo>(result)));
}
cudaError_t CUDARTAPI cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled) {
  FORWARD(cuGraphNodeSetEnabled(exec, node, enabled));
}
cudaError_t CUDARTAPI cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int* enabled) {
  FORWARD(cuGraphNodeGetEnabled(exec, node, enabled));
}
cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  FORWARD(cuGraphUpload(exec, stream));
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  FORWARD(cuGraphLaunch(exec, stream));
}
cudaError_t CUDARTAPI cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  FORWARD(cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t CUDARTAPI cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                           unsigned int count, unsigned int flags) {
  FORWARD(cuUserObjectCreate(object, data, destroy, count, flags));
}
cudaError_t CUDARTAPI cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  FORWARD(cuUserObjectRetain(object, count));
}
cudaError_t CUDARTAPI cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  FORWARD(cuUserObjectRelease(object, count));
}
cudaError_t CUDARTAPI cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                                unsigned int flags) {
  FORWARD(cuGraphRetainUserObject(graph, object, count, flags));
}
cudaError_t CUDARTAPI cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  FORWARD(cuGraphReleaseUserObject(graph, object, count));
}
cudaError_t CUDARTAPI cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  FORWARD(cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value));
}
cudaError_t CUDARTAPI cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  FORWARD(cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value));
}
cudaError_t CUDARTAPI cudaDeviceGraphMemTrim(int device) {
  FORWARD(cuDeviceGraphMemTrim(device));
}

}  // extern "C"

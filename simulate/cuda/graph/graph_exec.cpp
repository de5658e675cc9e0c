// Executable graphs and user objects of the driver API.
#include <cstring>

#include "simulate/cuda/graph/graph_params.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/graph/graph.h"
#include "simulate/model/memory/pool.h"
#include "simulate/model/stream.h"

namespace {

bool alive(CUgraphExec exec) {
  return simulate::handles<CUgraphExec_st>().has(exec);
}
bool alive(CUuserObject object) {
  return simulate::handles<CUuserObject_st>().has(object);
}

template <typename P>
CUresult change(CUgraphExec exec, CUgraphNode node, P* parameters) {
  TRY(ready());
  if (!alive(exec) || !parameters) return CUDA_ERROR_INVALID_VALUE;
  auto* step = simulate::step_of(exec, node);
  if (!step || step->operation.type != simulate::type_of(*parameters)) return CUDA_ERROR_INVALID_VALUE;
  return simulate::assign(step->operation, *parameters);
}

CUresult change_event(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event) {
  TRY(ready());
  if (!alive(exec)) return CUDA_ERROR_INVALID_VALUE;
  auto* step = simulate::step_of(exec, node);
  if (!step || step->operation.type != type) return CUDA_ERROR_INVALID_VALUE;
  return simulate::assign_event(step->operation, type, event);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  TRY(ready());
  return simulate::instantiate(graph, static_cast<unsigned>(flags), exec);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  TRY(ready());
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  p->hErrNode_out = nullptr;
  CUresult e = simulate::instantiate(graph, static_cast<unsigned>(p->flags), exec);
  p->result_out = e ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return e;
}
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  TRY(ready());
  if (!alive(exec)) return CUDA_ERROR_INVALID_VALUE;
  simulate::finish_work();
  simulate::destroy_exec(exec);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  if (!alive(exec) || !flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  TRY(ready());
  if (!alive(exec) || !simulate::handles<CUgraph_st>().has(graph)) return CUDA_ERROR_INVALID_VALUE;
  return simulate::update(exec, graph, result);
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  if (!alive(exec)) return CUDA_ERROR_INVALID_VALUE;
  if (simulate::capturing(stream)) {
    // A launch inside a capture becomes a child graph of what the executable holds now.
    simulate::Operation child;
    child.type = CU_GRAPH_NODE_TYPE_GRAPH;
    child.child = simulate::graph_of(exec);
    return simulate::submit(stream, std::move(child));
  }
  if (!simulate::launchable(exec)) return CUDA_ERROR_INVALID_VALUE;
  return simulate::launch(exec, stream);
}
CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  return alive(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  return change(exec, node, p);
}
CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
  return change(exec, node, p);
}
CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p,
                                                CUcontext) {
  return change(exec, node, p);
}
CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
  return change(exec, node, p);
}
CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* p) {
  return change(exec, node, p);
}
CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  TRY(ready());
  if (!alive(exec) || !simulate::handles<CUgraph_st>().has(child)) return CUDA_ERROR_INVALID_VALUE;
  auto* step = simulate::step_of(exec, node);
  if (!step || !step->child) return CUDA_ERROR_INVALID_VALUE;
  return simulate::update(step->child, child, nullptr);
}
CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  TRY(ready());
  auto* step = alive(exec) ? simulate::step_of(exec, node) : nullptr;
  if (!step) return CUDA_ERROR_INVALID_VALUE;
  step->enabled = enabled;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int* enabled) {
  TRY(ready());
  auto* step = alive(exec) ? simulate::step_of(exec, node) : nullptr;
  if (!step || !enabled) return CUDA_ERROR_INVALID_VALUE;
  *enabled = step->enabled;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned int count,
                                    unsigned int flags) {
  TRY(ready());
  if (!object || !destroy || !count || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  *object = new CUuserObject_st{data, destroy, static_cast<int>(count)};
  simulate::handles<CUuserObject_st>().add(*object);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
  if (!alive(object)) return CUDA_ERROR_INVALID_VALUE;
  simulate::retain(object, static_cast<int>(count));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  if (!alive(object)) return CUDA_ERROR_INVALID_VALUE;
  simulate::release(object, static_cast<int>(count));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
  if (!simulate::handles<CUgraph_st>().has(graph) || !alive(object)) return CUDA_ERROR_INVALID_VALUE;
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) simulate::retain(object, static_cast<int>(count));
  graph->objects[object] += static_cast<int>(count);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  if (!simulate::handles<CUgraph_st>().has(graph)) return CUDA_ERROR_INVALID_VALUE;
  auto it = graph->objects.find(object);
  if (it == graph->objects.end() || it->second < static_cast<int>(count)) return CUDA_ERROR_INVALID_VALUE;
  if ((it->second -= static_cast<int>(count)) == 0) graph->objects.erase(it);
  simulate::release(object, static_cast<int>(count));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  TRY(ready());
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || attribute < 0 || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  const simulate::GraphMemoryUse& use = simulate::graph_memory_use(device);
  const std::atomic<uint64_t>* const all[] = {&use.used, &use.used_high, &use.reserved, &use.reserved_high};
  const uint64_t bytes = all[attribute - CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT]->load();
  std::memcpy(value, &bytes, sizeof bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  TRY(ready());
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  uint64_t bytes = 1;
  if (value) std::memcpy(&bytes, value, sizeof bytes);
  simulate::GraphMemoryUse& use = simulate::graph_memory_use(device);
  const bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
  if (bytes || (!used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)) return CUDA_ERROR_INVALID_VALUE;
  if (used)
    use.used_high = use.used.load();
  else
    use.reserved_high = use.reserved.load();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  TRY(ready());
  return simulate::valid_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // extern "C"

// Graphs of the driver API: nodes and edges. Executable graphs are in graph_exec.cpp.
#include "simulate/model/graph/graph.h"

#include <algorithm>
#include <cstdio>

#include "simulate/cuda/graph/graph_params.h"

namespace {

using simulate::Operation;

bool alive(CUgraph graph) {
  return simulate::handles<CUgraph_st>().has(graph);
}

template <typename P>
CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, P* parameters) {
  TRY(ready());
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  TRY(simulate::assign(operation, *parameters));
  return simulate::add_node(graph, dependencies, count, std::move(operation), node);
}

CUresult add_made(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, Operation operation,
                  CUresult made) {
  TRY(made);
  return simulate::add_node(graph, dependencies, count, std::move(operation), node);
}

CUresult check(CUgraphNode node, CUgraphNodeType type) {
  TRY(ready());
  if (!simulate::alive(node)) return CUDA_ERROR_INVALID_HANDLE;
  return node->operation.type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename P>
CUresult change(CUgraphNode node, P* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  TRY(check(node, simulate::type_of(*parameters)));
  return simulate::assign(node->operation, *parameters);
}

// The convention of all list queries: without an array, the count; with one, what fits, and the rest zeroed.
template <typename T>
CUresult list(const std::vector<T>& all, T* out, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (out) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < all.size() ? all[i] : T{};
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
  return CUDA_SUCCESS;
}

const char* type_name(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "EMPTY";
  }
}

// What a node of that type has.
template <class T>
CUresult give(CUgraphNode node, CUgraphNodeType type, T Operation::*what, T* out) {
  TRY(check(node, type));
  *out = node->operation.*what;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned int flags) {
  TRY(ready());
  if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
  *graph = simulate::create_graph();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  TRY(ready());
  if (!alive(graph) || graph->child) return CUDA_ERROR_INVALID_VALUE;
  simulate::destroy_graph(graph);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphClone(CUgraph* clone, CUgraph graph) {
  TRY(ready());
  if (!clone || !alive(graph)) return CUDA_ERROR_INVALID_VALUE;
  *clone = simulate::clone_graph(graph);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext context,
                                                unsigned int initial, unsigned int flags) {
  TRY(ready());
  if (!handle || !alive(graph) || flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT))
    return CUDA_ERROR_INVALID_VALUE;
  if (context && !simulate::handles<CUctx_st>().has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *handle = simulate::create_condition(graph, initial, flags & CU_GRAPH_COND_ASSIGN_DEFAULT);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph clone) {
  TRY(ready());
  if (!found || !alive(clone)) return CUDA_ERROR_INVALID_VALUE;
  for (auto& node : clone->nodes)
    if (node->original == original) {
      *found = node.get();
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                      const CUDA_KERNEL_NODE_PARAMS* p) {
  return add(node, graph, d, n, p);
}
CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                      const CUDA_MEMCPY3D* p, CUcontext) {
  return add(node, graph, d, n, p);
}
CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                      const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  return add(node, graph, d, n, p);
}
CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                    const CUDA_HOST_NODE_PARAMS* p) {
  return add(node, graph, d, n, p);
}
CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, const CUgraphEdgeData*,
                                size_t n, CUgraphNodeParams* p) {
  return add(node, graph, d, n, p);
}
CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n) {
  return add_made(node, graph, d, n, Operation{}, ready());
}
CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                          CUgraph child) {
  TRY(ready());
  Operation operation;
  CUresult made = child == graph ? CUDA_ERROR_INVALID_VALUE : simulate::assign_child(operation, child);
  return add_made(node, graph, d, n, operation, made);
}
CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                           CUevent event) {
  Operation operation;
  CUresult made = simulate::assign_event(operation, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return add_made(node, graph, d, n, operation, made);
}
CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                         CUevent event) {
  Operation operation;
  CUresult made = simulate::assign_event(operation, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return add_made(node, graph, d, n, operation, made);
}
CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                        CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams general = {};
  general.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  general.alloc.poolProps = p->poolProps;
  general.alloc.bytesize = p->bytesize;
  TRY(add(node, graph, d, n, &general));
  p->dptr = general.alloc.dptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* d, size_t n,
                                       CUdeviceptr pointer) {
  CUgraphNodeParams general = {};
  general.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  general.free.dptr = pointer;
  return add(node, graph, d, n, &general);
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
  TRY(check(node, CU_GRAPH_NODE_TYPE_KERNEL));
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  simulate::expose_arguments(node->operation, p);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* p) {
  return give(node, CU_GRAPH_NODE_TYPE_MEMCPY, &Operation::copy, p);
}
CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p) {
  return give(node, CU_GRAPH_NODE_TYPE_MEMSET, &Operation::set, p);
}
CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p) {
  return give(node, CU_GRAPH_NODE_TYPE_HOST, &Operation::host, p);
}
CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return give(node, CU_GRAPH_NODE_TYPE_GRAPH, &Operation::child, graph);
}
CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return give(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &Operation::event, event);
}
CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return give(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &Operation::event, event);
}
CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  return give(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &Operation::alloc, p);
}
CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* pointer) {
  return give(node, CU_GRAPH_NODE_TYPE_MEM_FREE, &Operation::free, pointer);
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  return change(node, p);
}
CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
  return change(node, p);
}
CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
  return change(node, p);
}
CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
  return change(node, p);
}
CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) {
  return change(node, p);
}
CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  TRY(check(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD));
  return simulate::assign_event(node->operation, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  TRY(check(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT));
  return simulate::assign_event(node->operation, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
// Launch attributes of kernel nodes mean nothing to kernels that do not run.
CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  TRY(check(to, CU_GRAPH_NODE_TYPE_KERNEL));
  return check(from, CU_GRAPH_NODE_TYPE_KERNEL);
}
CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID, const CUkernelNodeAttrValue*) {
  return check(node, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  TRY(ready());
  if (!type || !simulate::alive(node)) return CUDA_ERROR_INVALID_VALUE;
  *type = node->operation.type;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (!alive(graph)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> all;
  for (auto& node : graph->nodes) all.push_back(node.get());
  return list(all, nodes, count);
}
CUresult CUDAAPI cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (!alive(graph)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> roots;
  for (auto& node : graph->nodes)
    if (node->dependencies.empty()) roots.push_back(node.get());
  return list(roots, nodes, count);
}
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                 size_t* count) {
  if (!alive(graph) || !count) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> sources, targets;
  for (auto& node : graph->nodes)
    for (CUgraphNode d : node->dependencies) {
      sources.push_back(d);
      targets.push_back(node.get());
    }
  size_t room = *count;
  TRY(list(sources, from, count));
  if (data) std::fill_n(data, *count, CUgraphEdgeData{});
  return to ? list(targets, to, &room) : CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  if (!simulate::alive(node)) return CUDA_ERROR_INVALID_VALUE;
  TRY(list(node->dependencies, out, count));
  if (data) std::fill_n(data, *count, CUgraphEdgeData{});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                              size_t* count) {
  if (!simulate::alive(node)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> dependents;
  for (auto& other : node->graph->nodes)
    if (std::count(other->dependencies.begin(), other->dependencies.end(), node)) dependents.push_back(other.get());
  TRY(list(dependents, out, count));
  if (data) std::fill_n(data, *count, CUgraphEdgeData{});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                        const CUgraphEdgeData*, size_t count) {
  if (!alive(graph) || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (!simulate::alive(from[i]) || !simulate::alive(to[i]) || from[i]->graph != graph || to[i]->graph != graph)
      return CUDA_ERROR_INVALID_VALUE;
    auto& d = to[i]->dependencies;
    if (std::count(d.begin(), d.end(), from[i])) return CUDA_ERROR_INVALID_VALUE;
    d.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData*, size_t count) {
  if (!alive(graph)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (!simulate::alive(to[i]) || !std::erase(to[i]->dependencies, from[i])) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode node) {
  TRY(ready());
  if (!simulate::alive(node)) return CUDA_ERROR_INVALID_VALUE;
  simulate::destroy_node(node);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned int) {
  if (!alive(graph) || !path) return CUDA_ERROR_INVALID_VALUE;
  FILE* out = std::fopen(path, "w");
  if (!out) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fprintf(out, "digraph dot {\n");
  for (auto& node : graph->nodes) {
    simulate::Function* f = node->operation.type == CU_GRAPH_NODE_TYPE_KERNEL
                                ? simulate::function_of(node->operation.kernel.func)
                                : nullptr;
    std::fprintf(out, "  \"%llu\" [label=\"%s %s\"];\n", node->id, type_name(node->operation.type),
                 f ? f->name.c_str() : "");
    for (CUgraphNode d : node->dependencies) std::fprintf(out, "  \"%llu\" -> \"%llu\";\n", d->id, node->id);
  }
  std::fprintf(out, "}\n");
  return std::fclose(out) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

}  // extern "C"

// Graphs that are put together by hand. What a node is given is looked at when it is added and whenever its parameters
// change, on the device on which it will run. A graph's launch then has nothing new in it. (What a stream's capture
// records has gone through the ordinary functions.)
//
// A copy's node is looked at as one copy each time; what it moves is counted when the graph is launched
// (cuda_graph_launch_hooks.cpp).

#include "interpose/cuda/copy_events.h"
#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "interpose/cuda/launch_events.h"
#include "interpose/linking/lazy_symbol.h"

using devtrace::Device;
using devtrace::events::Copy;
using devtrace::interpose::as_copy;
using devtrace::interpose::Call;
using devtrace::interpose::declared_direction;
using devtrace::interpose::device_of_context;
using devtrace::interpose::emit_launch;
using devtrace::interpose::Handle;
using devtrace::interpose::LazySymbol;
using devtrace::interpose::Shape;
using devtrace::interpose::shape;
namespace events = devtrace::events;

namespace {

constinit LazySymbol<decltype(&::cuGraphKernelNodeGetParams_v2)> node_parameters("libcuda.so",
                                                                                 "cuGraphKernelNodeGetParams_v2");

// A node keeps the device that it was made for; -1 when it does not tell.
int device_of_node(const void* node) {
  CUDA_KERNEL_NODE_PARAMS_v2 parameters{};
  const auto ask = node_parameters.get();
  if (!node || !ask || ask(static_cast<CUgraphNode>(const_cast<void*>(node)), &parameters) != CUDA_SUCCESS) return -1;
  return parameters.ctx ? device_of_context(parameters.ctx) : -1;
}

// `node`: the one whose parameters change; null for a new one, which runs on the current device.
void emit_kernel_node(const cudaKernelNodeParams& p, const void* node) {
  emit_launch(p.func, Handle::stub, shape(p.gridDim, p.blockDim), {nullptr, true, device_of_node(node)}, p.kernelParams,
              p.extra);
}
void emit_kernel_node(const cudaKernelNodeParamsV2& p, const void* node) {
  const dim3 grid(p.gridDim.x, p.gridDim.y, p.gridDim.z);
  const dim3 block(p.blockDim.x, p.blockDim.y, p.blockDim.z);
  emit_launch(p.func, Handle::stub, shape(grid, block), {nullptr, true, device_of_node(node)}, p.kernelParams, p.extra);
}
void emit_kernel_node(const CUDA_KERNEL_NODE_PARAMS_v1& p, const void* node) {
  emit_launch(p.func, Handle::function, shape(p), {nullptr, true, device_of_node(node)}, p.kernelParams, p.extra);
}
// Also of CUDA_KERNEL_NODE_PARAMS_v3. A function has a context of its own; a kernel runs in the one that is given, else
// in the current one.
template <class Parameters>
void emit_kernel_node(const Parameters& p, const void* node) {
  const int device = p.func ? device_of_node(node) : p.ctx ? device_of_context(p.ctx) : -1;
  if (p.func)
    emit_launch(p.func, Handle::function, shape(p), {nullptr, true, device}, p.kernelParams, p.extra);
  else
    emit_launch(p.kern, Handle::kernel, shape(p), {nullptr, true, device}, p.kernelParams, p.extra);
}

void on_allocated(const cudaMemAllocNodeParams& p) {
  events::allocated(p.dptr, p.bytesize, Device::cuda(p.poolProps.location.id));
}
void on_allocated(const cudaMemAllocNodeParamsV2& p) {
  events::allocated(p.dptr, p.bytesize, Device::cuda(p.poolProps.location.id));
}
template <class Parameters>
void on_allocated(const Parameters& p) {
  events::allocated(devtrace::interpose::pointer(p.dptr), p.bytesize, Device::cuda(p.poolProps.location.id));
}

void emit_copy_node(const Call& call, Copy copy, const char* function) {
  if (!call.before() || !events::wants_copies()) return;
  copy.function = function;
  copy.graph = true;
  events::copied(copy);
}

// Afterwards: what the graph copies when it is launched. `exec`: the only one that is changed; null: the graph itself.
void copy_node_made(const Call& call, bool success, const void* exec, const void* node, const Copy& copy) {
  if (!success || !call.after() || !call.outermost() || !node || !events::wants_copies()) return;
  if (exec)
    events::graph_copy_changed(exec, node, copy);
  else
    events::copy_planned(node, copy);
}
void node_made(const Call& call, bool success, const void* exec, const void* node, const cudaGraphNodeParams* p) {
  if (p && p->type == cudaGraphNodeTypeMemcpy) copy_node_made(call, success, exec, node, as_copy(p->memcpy.copyParams));
}
void node_made(const Call& call, bool success, const void* exec, const void* node, const CUgraphNodeParams* p) {
  if (p && p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
    copy_node_made(call, success, exec, node, as_copy(p->memcpy.copyParams));
}

// A node of any kind: before the original is called what it will do, afterwards what it was given.
void emit_node(const Call& call, const cudaGraphNodeParams* p, const void* node, const char* function) {
  if (!call.before() || !p) return;
  if (p->type == cudaGraphNodeTypeKernel) emit_kernel_node(p->kernel, node);
  if (p->type == cudaGraphNodeTypeMemcpy) emit_copy_node(call, as_copy(p->memcpy.copyParams), function);
}
void emit_node(const Call& call, const CUgraphNodeParams* p, const void* node, const char* function) {
  if (!call.before() || !p) return;
  if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) emit_kernel_node(p->kernel, node);
  if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY) emit_copy_node(call, as_copy(p->memcpy.copyParams), function);
}
void on_node_added(const Call& call, bool success, const cudaGraphNodeParams* p) {
  if (success && call.outermost() && p && p->type == cudaGraphNodeTypeMemAlloc) on_allocated(p->alloc);
}
void on_node_added(const Call& call, bool success, const CUgraphNodeParams* p) {
  if (success && call.outermost() && p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) on_allocated(p->alloc);
}

}  // namespace

// ---- kernels

#define ADD_KERNEL(HOOK, CALL, symbol, Graph, Node, Parameters)                                             \
  HOOK(symbol, (Node * node, Graph graph, const Node* after, size_t count, const Parameters* parameters)) { \
    const Call call;                                                                                        \
    if (call.before() && parameters) emit_kernel_node(*parameters, nullptr);                                \
    return CALL(symbol, (node, graph, after, count, parameters));                                           \
  }
ADD_KERNEL(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphAddKernelNode, cudaGraph_t, cudaGraphNode_t, cudaKernelNodeParams)
ADD_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuGraphAddKernelNode, CUgraph, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1)
ADD_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuGraphAddKernelNode_v2, CUgraph, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2)

#define SET_KERNEL(HOOK, CALL, symbol, Node, Parameters)                  \
  HOOK(symbol, (Node node, const Parameters* parameters)) {               \
    const Call call;                                                      \
    if (call.before() && parameters) emit_kernel_node(*parameters, node); \
    return CALL(symbol, (node, parameters));                              \
  }
SET_KERNEL(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphKernelNodeSetParams, cudaGraphNode_t, cudaKernelNodeParams)
SET_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuGraphKernelNodeSetParams, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1)
SET_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuGraphKernelNodeSetParams_v2, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2)

#define EXEC_SET_KERNEL(HOOK, CALL, symbol, Exec, Node, Parameters)       \
  HOOK(symbol, (Exec exec, Node node, const Parameters* parameters)) {    \
    const Call call;                                                      \
    if (call.before() && parameters) emit_kernel_node(*parameters, node); \
    return CALL(symbol, (exec, node, parameters));                        \
  }
EXEC_SET_KERNEL(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphExecKernelNodeSetParams, cudaGraphExec_t, cudaGraphNode_t,
                cudaKernelNodeParams)
EXEC_SET_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuGraphExecKernelNodeSetParams, CUgraphExec, CUgraphNode,
                CUDA_KERNEL_NODE_PARAMS_v1)
EXEC_SET_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuGraphExecKernelNodeSetParams_v2, CUgraphExec, CUgraphNode,
                CUDA_KERNEL_NODE_PARAMS_v2)

// ---- nodes of any kind

DRIVER_HOOK(cuGraphAddNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t count,
                             CUgraphNodeParams* parameters)) {
  const Call call;
  emit_node(call, parameters, nullptr, API_NAME(cuGraphAddNode));
  const CUresult result = CALL_DRIVER(cuGraphAddNode, (node, graph, after, count, parameters));
  on_node_added(call, result == CUDA_SUCCESS, parameters);
  node_made(call, result == CUDA_SUCCESS, nullptr, node ? *node : nullptr, parameters);
  return result;
}
DRIVER_HOOK(cuGraphAddNode_v2, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after,
                                const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* parameters)) {
  const Call call;
  emit_node(call, parameters, nullptr, API_NAME(cuGraphAddNode_v2));
  const CUresult result = CALL_DRIVER(cuGraphAddNode_v2, (node, graph, after, edges, count, parameters));
  on_node_added(call, result == CUDA_SUCCESS, parameters);
  node_made(call, result == CUDA_SUCCESS, nullptr, node ? *node : nullptr, parameters);
  return result;
}

// CUDA 12's cudaGraphAddNode has no edges, so that everything behind them stands one place further to the front;
// CUDA 13's is what CUDA 12 calls _v2. The hook hands on as many arguments as either has.
#define ADD_NODE(symbol, name, without_edges)                                                                          \
  RUNTIME_HOOK_AS(symbol, name,                                                                                        \
                  (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, void* fourth, void* fifth, \
                   void* sixth)) {                                                                                     \
    const Call call;                                                                                                   \
    auto* const parameters = static_cast<cudaGraphNodeParams*>((without_edges) ? fifth : sixth);                       \
    emit_node(call, parameters, nullptr, API_NAME(symbol));                                                            \
    const cudaError_t result = CALL_RUNTIME_AS(symbol, name, (node, graph, after, fourth, fifth, sixth));              \
    on_node_added(call, result == cudaSuccess, parameters);                                                            \
    node_made(call, result == cudaSuccess, nullptr, node ? *node : nullptr, parameters);                               \
    return result;                                                                                                     \
  }
ADD_NODE(cudaGraphAddNode, add_node, OLDER_THAN(12030, cudaGraphAddNode, add_node))
ADD_NODE(cudaGraphAddNode_v2, add_node_v2, false)

#define SET_NODE(HOOK, CALL, symbol, Node, Parameters)       \
  HOOK(symbol, (Node node, Parameters * parameters)) {       \
    const Call call;                                         \
    emit_node(call, parameters, node, API_NAME(symbol));     \
    const auto result = CALL(symbol, (node, parameters));    \
    node_made(call, result == 0, nullptr, node, parameters); \
    return result;                                           \
  }
SET_NODE(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphNodeSetParams, cudaGraphNode_t, cudaGraphNodeParams)
SET_NODE(DRIVER_HOOK, CALL_DRIVER, cuGraphNodeSetParams, CUgraphNode, CUgraphNodeParams)

#define EXEC_SET_NODE(HOOK, CALL, symbol, Exec, Node, Parameters) \
  HOOK(symbol, (Exec exec, Node node, Parameters * parameters)) { \
    const Call call;                                              \
    emit_node(call, parameters, node, API_NAME(symbol));          \
    const auto result = CALL(symbol, (exec, node, parameters));   \
    node_made(call, result == 0, exec, node, parameters);         \
    return result;                                                \
  }
EXEC_SET_NODE(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphExecNodeSetParams, cudaGraphExec_t, cudaGraphNode_t,
              cudaGraphNodeParams)
EXEC_SET_NODE(DRIVER_HOOK, CALL_DRIVER, cuGraphExecNodeSetParams, CUgraphExec, CUgraphNode, CUgraphNodeParams)

// ---- copies

// `exec`, `made`: the executable graph that is changed, null for a graph itself, and the node.
#define COPY_NODE(API, symbol, parameters, arguments, exec, made, ...)      \
  API##_HOOK(symbol, parameters) {                                          \
    const Call call;                                                        \
    if (call.before()) emit_copy_node(call, __VA_ARGS__, API_NAME(symbol)); \
    const auto result = CALL_##API(symbol, arguments);                      \
    if (result == 0) copy_node_made(call, true, exec, made, __VA_ARGS__);   \
    return result;                                                          \
  }
#define RUNTIME_ADDS(symbol, parameters, arguments, ...) \
  COPY_NODE(RUNTIME, symbol, parameters, arguments, nullptr, node ? *node : nullptr, __VA_ARGS__)
#define RUNTIME_SETS(symbol, parameters, arguments, ...) \
  COPY_NODE(RUNTIME, symbol, parameters, arguments, nullptr, node, __VA_ARGS__)
#define RUNTIME_SETS_EXEC(symbol, parameters, arguments, ...) \
  COPY_NODE(RUNTIME, symbol, parameters, arguments, exec, node, __VA_ARGS__)
#define STRUCTURE (copy ? as_copy(*copy) : Copy{})
#define LINEAR (Copy{.to = to, .from = from, .bytes = bytes, .direction = declared_direction(kind)})
// A variable of the program has no address that a hook could know without CUDA's help.
#define TO_SYMBOL (Copy{.from = from, .bytes = bytes, .direction = declared_direction(kind)})
#define FROM_SYMBOL (Copy{.to = to, .bytes = bytes, .direction = declared_direction(kind)})

RUNTIME_ADDS(cudaGraphAddMemcpyNode,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
              const cudaMemcpy3DParms* copy),
             (node, graph, after, count, copy), STRUCTURE)
RUNTIME_SETS(cudaGraphMemcpyNodeSetParams, (cudaGraphNode_t node, const cudaMemcpy3DParms* copy), (node, copy),
             STRUCTURE)
RUNTIME_SETS_EXEC(cudaGraphExecMemcpyNodeSetParams,
                  (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* copy), (exec, node, copy),
                  STRUCTURE)
RUNTIME_ADDS(cudaGraphAddMemcpyNode1D,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
              const void* from, size_t bytes, cudaMemcpyKind kind),
             (node, graph, after, count, to, from, bytes, kind), LINEAR)
RUNTIME_SETS(cudaGraphMemcpyNodeSetParams1D,
             (cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
             (node, to, from, bytes, kind), LINEAR)
RUNTIME_SETS_EXEC(cudaGraphExecMemcpyNodeSetParams1D,
                  (cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                   cudaMemcpyKind kind),
                  (exec, node, to, from, bytes, kind), LINEAR)
RUNTIME_ADDS(cudaGraphAddMemcpyNodeToSymbol,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const void* symbol,
              const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
             (node, graph, after, count, symbol, from, bytes, offset, kind), TO_SYMBOL)
RUNTIME_SETS(cudaGraphMemcpyNodeSetParamsToSymbol,
             (cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes, size_t offset,
              cudaMemcpyKind kind),
             (node, symbol, from, bytes, offset, kind), TO_SYMBOL)
RUNTIME_SETS_EXEC(cudaGraphExecMemcpyNodeSetParamsToSymbol,
                  (cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes,
                   size_t offset, cudaMemcpyKind kind),
                  (exec, node, symbol, from, bytes, offset, kind), TO_SYMBOL)
RUNTIME_ADDS(cudaGraphAddMemcpyNodeFromSymbol,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
              const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
             (node, graph, after, count, to, symbol, bytes, offset, kind), FROM_SYMBOL)
RUNTIME_SETS(cudaGraphMemcpyNodeSetParamsFromSymbol,
             (cudaGraphNode_t node, void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
             (node, to, symbol, bytes, offset, kind), FROM_SYMBOL)
RUNTIME_SETS_EXEC(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
                  (cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
                   size_t offset, cudaMemcpyKind kind),
                  (exec, node, to, symbol, bytes, offset, kind), FROM_SYMBOL)

COPY_NODE(DRIVER, cuGraphAddMemcpyNode,
          (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t count, const CUDA_MEMCPY3D* copy,
           CUcontext context),
          (node, graph, after, count, copy, context), nullptr, node ? *node : nullptr, STRUCTURE)
COPY_NODE(DRIVER, cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D* copy), (node, copy), nullptr,
          node, STRUCTURE)
COPY_NODE(DRIVER, cuGraphExecMemcpyNodeSetParams,
          (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy, CUcontext context),
          (exec, node, copy, context), exec, node, STRUCTURE)

// ---- allocations: the address is given out when the node is added, and belongs to the graph from then on

#define ADD_ALLOCATION(HOOK, CALL, symbol, Graph, Node, Parameters, success)                          \
  HOOK(symbol, (Node * node, Graph graph, const Node* after, size_t count, Parameters* parameters)) { \
    const Call call;                                                                                  \
    const auto result = CALL(symbol, (node, graph, after, count, parameters));                        \
    if (result == success && call.outermost() && parameters) on_allocated(*parameters);               \
    return result;                                                                                    \
  }
ADD_ALLOCATION(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphAddMemAllocNode, cudaGraph_t, cudaGraphNode_t,
               cudaMemAllocNodeParams, cudaSuccess)
ADD_ALLOCATION(DRIVER_HOOK, CALL_DRIVER, cuGraphAddMemAllocNode, CUgraph, CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS,
               CUDA_SUCCESS)

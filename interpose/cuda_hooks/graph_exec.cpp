// Graphs that are made ready, changed and launched: their copies are made at each launch.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda/graph_events.h"
#include "interpose/cuda/hook.h"

using devtrace::interpose::Call;
namespace events = devtrace::events;
namespace graph_copies = devtrace::interpose::graph_copies;

// A launch on a captured stream launches nothing: the graph becomes part of the other.
#define GRAPH_LAUNCH(HOOK, CALL, symbol, Exec, Stream)                                  \
  HOOK(symbol, (Exec exec, Stream stream)) {                                            \
    const Call call;                                                                    \
    if (call.before() && !graph_copies::captures(stream)) events::graph_launched(exec); \
    return CALL(symbol, (exec, stream));                                                \
  }
GRAPH_LAUNCH(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphLaunch, cudaGraphExec_t, cudaStream_t)
GRAPH_LAUNCH(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphLaunch_ptsz, cudaGraphExec_t, cudaStream_t)
GRAPH_LAUNCH(DRIVER_HOOK, CALL_DRIVER, cuGraphLaunch, CUgraphExec, CUstream)
GRAPH_LAUNCH(DRIVER_HOOK, CALL_DRIVER, cuGraphLaunch_ptsz, CUgraphExec, CUstream)

#define MAKES_READY(HOOK, CALL, symbol, Exec, Graph, parameters, arguments)                                    \
  HOOK(symbol, parameters) {                                                                                   \
    const Call call;                                                                                           \
    const auto result = CALL(symbol, arguments);                                                               \
    if (result == 0 && call.after() && call.outermost() && exec) graph_copies::emit_graph_ready(*exec, graph); \
    return result;                                                                                             \
  }
// Before CUDA 12 cudaGraphInstantiate told of errors in two arguments more: the hook hands on all that any version has.
RUNTIME_HOOK_AS(cudaGraphInstantiate, instantiate,
                (cudaGraphExec_t * exec, cudaGraph_t graph, void* third, void* fourth, void* fifth)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME_AS(cudaGraphInstantiate, instantiate, (exec, graph, third, fourth, fifth));
  if (result == cudaSuccess && call.after() && call.outermost() && exec) graph_copies::emit_graph_ready(*exec, graph);
  return result;
}
MAKES_READY(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphInstantiateWithFlags, cudaGraphExec_t, cudaGraph_t,
            (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags))
MAKES_READY(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphInstantiateWithParams, cudaGraphExec_t, cudaGraph_t,
            (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
            (exec, graph, parameters))
MAKES_READY(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphInstantiateWithParams_ptsz, cudaGraphExec_t, cudaGraph_t,
            (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
            (exec, graph, parameters))
MAKES_READY(DRIVER_HOOK, CALL_DRIVER, cuGraphInstantiate, CUgraphExec, CUgraph,
            (CUgraphExec * exec, CUgraph graph, CUgraphNode* node, char* log, size_t bytes),
            (exec, graph, node, log, bytes))
MAKES_READY(DRIVER_HOOK, CALL_DRIVER, cuGraphInstantiate_v2, CUgraphExec, CUgraph,
            (CUgraphExec * exec, CUgraph graph, CUgraphNode* node, char* log, size_t bytes),
            (exec, graph, node, log, bytes))
MAKES_READY(DRIVER_HOOK, CALL_DRIVER, cuGraphInstantiateWithFlags, CUgraphExec, CUgraph,
            (CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
MAKES_READY(DRIVER_HOOK, CALL_DRIVER, cuGraphInstantiateWithParams, CUgraphExec, CUgraph,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters), (exec, graph, parameters))
MAKES_READY(DRIVER_HOOK, CALL_DRIVER, cuGraphInstantiateWithParams_ptsz, CUgraphExec, CUgraph,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters), (exec, graph, parameters))

// Before CUDA 12 cudaGraphExecUpdate and cuGraphExecUpdate told of what differs in two arguments.
#define UPDATES(HOOK, CALL, symbol, name, Exec, Graph)                                                \
  HOOK(symbol, name, (Exec exec, Graph graph, void* third, void* fourth)) {                           \
    const Call call;                                                                                  \
    const auto result = CALL(symbol, name, (exec, graph, third, fourth));                             \
    if (result == 0 && call.after() && call.outermost()) graph_copies::emit_graph_ready(exec, graph); \
    return result;                                                                                    \
  }
UPDATES(RUNTIME_HOOK_AS, CALL_RUNTIME_AS, cudaGraphExecUpdate, exec_update, cudaGraphExec_t, cudaGraph_t)

#define DRIVER_UPDATES(symbol, parameters, arguments)                                                            \
  DRIVER_HOOK(symbol, parameters) {                                                                              \
    const Call call;                                                                                             \
    const CUresult result = CALL_DRIVER(symbol, arguments);                                                      \
    if (result == CUDA_SUCCESS && call.after() && call.outermost()) graph_copies::emit_graph_ready(exec, graph); \
    return result;                                                                                               \
  }
DRIVER_UPDATES(cuGraphExecUpdate, (CUgraphExec exec, CUgraph graph, CUgraphNode* node, CUgraphExecUpdateResult* update),
               (exec, graph, node, update))
DRIVER_UPDATES(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* update),
               (exec, graph, update))

#define CHANGES_CHILD(HOOK, CALL, symbol, Exec, Node, Graph)                                                  \
  HOOK(symbol, (Exec exec, Node node, Graph child)) {                                                         \
    const Call call;                                                                                          \
    const auto result = CALL(symbol, (exec, node, child));                                                    \
    if (result == 0 && call.after() && call.outermost()) graph_copies::emit_child_changed(exec, node, child); \
    return result;                                                                                            \
  }
CHANGES_CHILD(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphExecChildGraphNodeSetParams, cudaGraphExec_t, cudaGraphNode_t,
              cudaGraph_t)
CHANGES_CHILD(DRIVER_HOOK, CALL_DRIVER, cuGraphExecChildGraphNodeSetParams, CUgraphExec, CUgraphNode, CUgraph)

#define ENABLES(HOOK, CALL, symbol, Exec, Node)                                                           \
  HOOK(symbol, (Exec exec, Node node, unsigned enabled)) {                                                \
    const Call call;                                                                                      \
    const auto result = CALL(symbol, (exec, node, enabled));                                              \
    if (result == 0 && call.after() && call.outermost()) events::graph_node_enabled(exec, node, enabled); \
    return result;                                                                                        \
  }
ENABLES(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphNodeSetEnabled, cudaGraphExec_t, cudaGraphNode_t)
ENABLES(DRIVER_HOOK, CALL_DRIVER, cuGraphNodeSetEnabled, CUgraphExec, CUgraphNode)

// Before the original: afterwards another thread may have been given the same handle.
#define ENDS(HOOK, CALL, symbol, Handle, emit) \
  HOOK(symbol, (Handle handle)) {              \
    const Call call;                           \
    if (call.before()) emit(handle);           \
    return CALL(symbol, (handle));             \
  }
ENDS(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphExecDestroy, cudaGraphExec_t, events::graph_gone)
ENDS(DRIVER_HOOK, CALL_DRIVER, cuGraphExecDestroy, CUgraphExec, events::graph_gone)
ENDS(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphDestroy, cudaGraph_t, graph_copies::emit_graph_gone)
ENDS(DRIVER_HOOK, CALL_DRIVER, cuGraphDestroy, CUgraph, graph_copies::emit_graph_gone)
ENDS(RUNTIME_HOOK, CALL_RUNTIME, cudaGraphDestroyNode, cudaGraphNode_t, events::graph_node_gone)
ENDS(DRIVER_HOOK, CALL_DRIVER, cuGraphDestroyNode, CUgraphNode, events::graph_node_gone)

// ---- captures

#define BEGINS_CAPTURE(HOOK, CALL, symbol, parameters, arguments)                       \
  HOOK(symbol, parameters) {                                                            \
    const Call call;                                                                    \
    const auto result = CALL(symbol, arguments);                                        \
    if (result == 0 && call.after() && call.outermost()) graph_copies::capture_begun(); \
    return result;                                                                      \
  }
#define BEGINS_RUNTIME_CAPTURE(symbol) \
  BEGINS_CAPTURE(RUNTIME_HOOK, CALL_RUNTIME, symbol, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode))
BEGINS_RUNTIME_CAPTURE(cudaStreamBeginCapture)
BEGINS_RUNTIME_CAPTURE(cudaStreamBeginCapture_ptsz)
#define BEGINS_RUNTIME_CAPTURE_TO_GRAPH(symbol)                                              \
  BEGINS_CAPTURE(RUNTIME_HOOK, CALL_RUNTIME, symbol,                                         \
                 (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after,      \
                  const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode), \
                 (stream, graph, after, edges, count, mode))
BEGINS_RUNTIME_CAPTURE_TO_GRAPH(cudaStreamBeginCaptureToGraph)
BEGINS_RUNTIME_CAPTURE_TO_GRAPH(cudaStreamBeginCaptureToGraph_ptsz)

#define BEGINS_DRIVER_CAPTURE(symbol) \
  BEGINS_CAPTURE(DRIVER_HOOK, CALL_DRIVER, symbol, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGINS_DRIVER_CAPTURE(cuStreamBeginCapture_v2)
BEGINS_DRIVER_CAPTURE(cuStreamBeginCapture_v2_ptsz)
BEGINS_CAPTURE(DRIVER_HOOK, CALL_DRIVER, cuStreamBeginCapture, (CUstream stream), (stream))
BEGINS_CAPTURE(DRIVER_HOOK, CALL_DRIVER, cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
#define BEGINS_DRIVER_CAPTURE_TO_GRAPH(symbol)                                                            \
  BEGINS_CAPTURE(DRIVER_HOOK, CALL_DRIVER, symbol,                                                        \
                 (CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges, \
                  size_t count, CUstreamCaptureMode mode),                                                \
                 (stream, graph, after, edges, count, mode))
BEGINS_DRIVER_CAPTURE_TO_GRAPH(cuStreamBeginCaptureToGraph)
BEGINS_DRIVER_CAPTURE_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)

#define ENDS_CAPTURE(HOOK, CALL, symbol, Stream, Graph)                                 \
  HOOK(symbol, (Stream stream, Graph * graph)) {                                        \
    const Call call;                                                                    \
    const auto result = CALL(symbol, (stream, graph));                                  \
    if (result == 0 && call.after() && call.outermost()) graph_copies::capture_ended(); \
    return result;                                                                      \
  }
ENDS_CAPTURE(RUNTIME_HOOK, CALL_RUNTIME, cudaStreamEndCapture, cudaStream_t, cudaGraph_t)
ENDS_CAPTURE(RUNTIME_HOOK, CALL_RUNTIME, cudaStreamEndCapture_ptsz, cudaStream_t, cudaGraph_t)
ENDS_CAPTURE(DRIVER_HOOK, CALL_DRIVER, cuStreamEndCapture, CUstream, CUgraph)
ENDS_CAPTURE(DRIVER_HOOK, CALL_DRIVER, cuStreamEndCapture_ptsz, CUstream, CUgraph)

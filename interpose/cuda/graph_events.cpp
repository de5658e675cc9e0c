#include "interpose/cuda/graph_events.h"

#include <cuda.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "interpose/cuda/copy_events.h"
#include "interpose/linking/lazy_symbol.h"
#include "tracker/base/thread_state.h"

namespace devtrace::interpose::graph_events {
namespace {

constinit LazySymbol<decltype(&::cuStreamIsCapturing)> is_capturing("libcuda.so", "cuStreamIsCapturing");
constinit LazySymbol<decltype(&::cuStreamGetCaptureInfo_v3)> capture_info("libcuda.so", "cuStreamGetCaptureInfo_v3");
// The ABI of CUDA 11.3, without what stands on the edges.
using OlderCaptureInfo = CUresult (*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                      size_t*);
constinit LazySymbol<OlderCaptureInfo> older_capture_info("libcuda.so", "cuStreamGetCaptureInfo_v2");
constinit LazySymbol<decltype(&::cuGraphGetNodes)> nodes_of("libcuda.so", "cuGraphGetNodes");
constinit LazySymbol<decltype(&::cuGraphNodeGetType)> type_of("libcuda.so", "cuGraphNodeGetType");
constinit LazySymbol<decltype(&::cuGraphMemcpyNodeGetParams)> copy_of("libcuda.so", "cuGraphMemcpyNodeGetParams");
constinit LazySymbol<decltype(&::cuGraphChildGraphNodeGetGraph)> child_of("libcuda.so",
                                                                          "cuGraphChildGraphNodeGetGraph");

CUstream stream_of(const void* stream) {
  return static_cast<CUstream>(const_cast<void*>(stream));
}

std::vector<CUgraphNode> nodes(const void* graph) {
  const auto ask = nodes_of.get();
  const auto handle = static_cast<CUgraph>(const_cast<void*>(graph));
  size_t count = 0;
  if (!ask || !graph || ask(handle, nullptr, &count) != CUDA_SUCCESS) return {};
  std::vector<CUgraphNode> found(count);
  if (count > 0 && ask(handle, found.data(), &count) != CUDA_SUCCESS) return {};
  return found;
}

// `of`: the node of the outermost graph that holds this one; null: this is the outermost.
void collect(const void* graph, const void* of, std::vector<events::GraphCopy>& copies) {
  const auto ask_type = type_of.get();
  const auto ask_copy = copy_of.get();
  const auto ask_child = child_of.get();
  if (!ask_type) return;
  for (const CUgraphNode node : nodes(graph)) {
    CUgraphNodeType type{};
    if (ask_type(node, &type) != CUDA_SUCCESS) continue;
    CUgraph child = nullptr;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && ask_child && ask_child(node, &child) == CUDA_SUCCESS)
      collect(child, of ? of : node, copies);
    const bool planned = events::copy_is_planned(node);
    if (type != CU_GRAPH_NODE_TYPE_MEMCPY && !planned) continue;  // a collective's kernel is planned, too
    events::GraphCopy copy{node, of ? of : node, false, {}};
    CUDA_MEMCPY3D parameters{};
    if (!planned && ask_copy && ask_copy(node, &parameters) == CUDA_SUCCESS) {
      copy.queried = true;
      copy.copy = as_copy(parameters);
    }
    copies.push_back(copy);
  }
}

// What hooks call must not throw, and leaves errno alone. Out of memory: that graph's copies are not counted.
template <class Work>
void quietly(const Work& work) noexcept {
  const int saved = errno;
  try {
    if (events::wants_copies()) work();
  } catch (...) {
  }
  errno = saved;
}

}  // namespace

bool asked_to_capture(const void* stream) {
  const auto ask = is_capturing.get();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask && ask(stream_of(stream), &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void capture_begun() {
  captures_now.fetch_add(1, std::memory_order_relaxed);
}

void capture_ended() {
  // One that began before us has not been counted.
  int now = captures_now.load(std::memory_order_relaxed);
  while (now > 0 && !captures_now.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
  }
}

const void* captured_node(const void* stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  size_t count = 0;
  const CUgraphEdgeData* edges = nullptr;
  CUresult result = CUDA_ERROR_NOT_FOUND;
  if (const auto ask = capture_info.get())
    result = ask(stream_of(stream), &status, &id, &graph, &last, &edges, &count);
  else if (const auto ask_older = older_capture_info.get())
    result = ask_older(stream_of(stream), &status, &id, &graph, &last, &count);
  return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1 && last ? last[0] : nullptr;
}

void emit_graph_ready(const void* executable, const void* graph) {
  quietly([&] {
    std::vector<events::GraphCopy> copies;
    collect(graph, nullptr, copies);
    events::graph_ready(executable, copies.data(), copies.size());
  });
}

void emit_child_changed(const void* executable, const void* node, const void* child) {
  quietly([&] {
    std::vector<events::GraphCopy> copies;
    collect(child, node, copies);
    events::graph_child_changed(executable, node, copies.data(), copies.size());
  });
}

void emit_graph_gone(const void* graph) {
  quietly([&] {
    for (const CUgraphNode node : nodes(graph)) events::graph_node_gone(node);
  });
}

}  // namespace devtrace::interpose::graph_events

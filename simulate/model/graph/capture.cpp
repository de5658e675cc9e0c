#include "simulate/model/graph/capture.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "simulate/model/device.h"
#include "simulate/model/graph/kept_work.h"

namespace devtrace::simulate {
namespace {

std::mutex g_mutex;
std::vector<std::shared_ptr<Capture>> g_captures;
std::atomic<int> g_count{0};
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void finish(const std::shared_ptr<Capture>& c) {
  for (CUstream member : c->members) {
    member->capture = nullptr;
    member->tips.clear();
  }
  c->origin = nullptr;
  std::lock_guard lock(g_mutex);
  std::erase(g_captures, c);
  g_count = static_cast<int>(g_captures.size());
}

}  // namespace

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode, CUgraph into, const CUgraphNode* tips, size_t count) {
  static std::atomic<unsigned long long> next{1};
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  auto c = std::make_shared<Capture>();
  c->own_graph = !into;
  c->graph = into ? into : create_graph();
  c->origin = stream;
  c->mode = mode;
  c->id = next.fetch_add(1);
  c->thread = pthread_self();
  c->members.push_back(stream);
  stream->tips.assign(tips, tips + count);
  stream->capture = c;
  std::lock_guard lock(g_mutex);
  g_captures.push_back(c);
  g_count = static_cast<int>(g_captures.size());
  return CUDA_SUCCESS;
}

CUresult end_capture(CUstream stream, CUgraph* graph) {
  if (graph) *graph = nullptr;
  std::shared_ptr<Capture> c = stream->capture;
  if (!c) return CUDA_ERROR_ILLEGAL_STATE;
  if (c->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != pthread_self())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  // Every joined stream's last node must lie before the origin's tips, or its work would be lost from the graph.
  std::vector<CUgraphNode> reached = stream->tips;
  for (size_t i = 0; i < reached.size(); ++i)
    for (CUgraphNode d : reached[i]->dependencies)
      if (std::find(reached.begin(), reached.end(), d) == reached.end()) reached.push_back(d);
  bool unjoined = false;
  const auto join = [&](const std::vector<CUgraphNode>& tips) {
    for (CUgraphNode tip : tips) unjoined |= std::find(reached.begin(), reached.end(), tip) == reached.end();
  };
  for (CUstream member : c->members) join(member->tips);
  join(c->left);
  bool invalid = c->invalid;
  finish(c);
  if (invalid || unjoined) {
    if (c->own_graph) destroy_graph(c->graph);
    return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (graph) *graph = c->graph;
  return CUDA_SUCCESS;
}

CUresult capture(CUstream stream, Operation operation) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  keep_work(operation);
  CUgraphNode node;
  if (CUresult e =
          add_node(stream->capture->graph, stream->tips.data(), stream->tips.size(), std::move(operation), &node))
    return e;
  stream->tips.assign(1, node);
  return CUDA_SUCCESS;
}

CUresult capture_record(CUevent event, CUstream stream) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  event->tips = stream->tips;
  return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event) {
  std::shared_ptr<Capture> c = event->capture;
  if (!c->origin) {  // that capture ended: its event means nothing to this stream
    return capturing(stream) ? capture_isolation(stream) : CUDA_SUCCESS;
  }
  if (stream == stream->context->legacy) {
    c->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (!stream->capture) {
    stream->capture = c;
    c->members.push_back(stream);
  } else if (stream->capture != c) {
    c->invalid = stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  for (CUgraphNode tip : event->tips)
    if (std::find(stream->tips.begin(), stream->tips.end(), tip) == stream->tips.end()) stream->tips.push_back(tip);
  return CUDA_SUCCESS;
}

CUresult capture_isolation(CUstream stream) {
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

CUresult check_not_capturing(CUstream stream) {
  if (!capturing(stream)) return CUDA_SUCCESS;
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult check_not_captured(CUevent event) {
  if (!event->capture || !event->capture->origin) return CUDA_SUCCESS;
  event->capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

void leave_capture(CUstream stream) {
  if (std::shared_ptr<Capture> c = stream->capture) {
    if (c->origin == stream) {
      c->invalid = true;
      finish(c);
      return;
    }
    c->left.insert(c->left.end(), stream->tips.begin(), stream->tips.end());
    std::erase(c->members, stream);
    stream->capture = nullptr;
  }
}

CUresult check_implicit(CUstream stream) {
  if (g_count.load(std::memory_order_acquire) == 0 || stream != stream->context->legacy) return CUDA_SUCCESS;
  std::lock_guard lock(g_mutex);
  for (auto& c : g_captures)
    for (CUstream member : c->members)
      if (member->context == stream->context && !(member->flags & CU_STREAM_NON_BLOCKING)) {
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  return CUDA_SUCCESS;
}

CUresult check_unsafe() {
  if (g_count.load(std::memory_order_acquire) == 0 || t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(g_mutex);
  for (auto& c : g_captures) {
    bool mine = c->thread == pthread_self();
    bool forbidden = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ? mine || t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL
                                                              : mine && c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    if (forbidden) {
      c->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

CUresult check_context(CUcontext context) {
  if (g_count.load(std::memory_order_acquire) == 0) return CUDA_SUCCESS;
  std::lock_guard lock(g_mutex);
  for (auto& c : g_captures)
    for (CUstream member : c->members)
      if (member->context == context) {
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
  return CUDA_SUCCESS;
}

CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode) {
  CUstreamCaptureMode old = t_mode;
  t_mode = mode;
  return old;
}

}  // namespace devtrace::simulate

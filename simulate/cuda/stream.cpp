// Streams and events of the driver API.
#include "simulate/model/stream.h"

#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/memory/written.h"
#include "simulate/model/profiler_callbacks.h"

namespace {

struct Callback {
  CUstreamCallback function;
  CUstream stream;
  void* data;
};

void run_callback(void* data) {
  auto* c = static_cast<Callback*>(data);
  c->function(c->stream, CUDA_SUCCESS, c->data);
  delete c;
}

bool alive(CUevent event) {
  return simulate::handles<CUevent_st>().has(event);
}

CUresult enqueue_host(CUstream stream, CUhostFn function, void* data) {
  simulate::Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_HOST;
  operation.host = {function, data};
  return simulate::submit(stream, std::move(operation));
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  REQUIRE_CONTEXT(context);
  if (!stream || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) return CUDA_ERROR_INVALID_VALUE;
  *stream = simulate::create_stream(context, flags, simulate::nearest_priority(priority));
  simulate::notice(simulate::kResource, simulate::kStreamCreated, context, *stream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned int flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  TRY(ready());
  if (!simulate::handles<CUstream_st>().has(stream) || stream == stream->context->legacy)
    return CUDA_ERROR_INVALID_HANDLE;
  simulate::notice(simulate::kResource, simulate::kStreamDestroyStarting, stream->context, stream);
  simulate::destroy_stream(stream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  TRY(simulate::check_not_capturing(stream));
  TRY(simulate::check_implicit(stream));
  if (int sticky = stream->context->sticky) return static_cast<CUresult>(sticky);
  if (simulate::is_idle(stream)) return CUDA_SUCCESS;
  if (simulate::is_async()) simulate::asynchronous::asked(stream);
  return CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  TRY(simulate::check_not_capturing(stream));
  TRY(simulate::check_implicit(stream));
  TRY(simulate::check_unsafe());
  if (stream == stream->context->legacy)
    simulate::synchronize_context(stream->context);
  else
    simulate::synchronize(stream);
  simulate::notice(simulate::kSynchronize, simulate::kStreamSynchronized, stream->context, stream);
  simulate::host_waited();
  return static_cast<CUresult>(stream->context->sticky.load());
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!alive(event)) return CUDA_ERROR_INVALID_HANDLE;
  return simulate::stream_wait_event(stream, event, flags & CU_EVENT_WAIT_EXTERNAL);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* data, unsigned int flags) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!function || flags) return CUDA_ERROR_INVALID_VALUE;
  TRY(simulate::check_not_capturing(stream));
  return enqueue_host(stream, run_callback, new Callback{function, handle, data});
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return enqueue_host(stream, function, data);
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* priority) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* context) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = stream->context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice* device) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream to, CUstream from) {
  TRY(simulate::resolve(to, &to));
  TRY(simulate::resolve(from, &from));
  for (int i = 0; i < 16; ++i) to->attributes[i] = from->attributes[i];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!value || attribute < 0 || attribute >= 16) return CUDA_ERROR_INVALID_VALUE;
  *value = stream->attributes[attribute];
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!value || attribute < 0 || attribute >= 16) return CUDA_ERROR_INVALID_VALUE;
  stream->attributes[attribute] = *value;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) stream->priority = simulate::nearest_priority(value->priority);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  return simulate::begin_capture(stream, mode, nullptr, nullptr, 0);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* dependencies,
                                             const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!simulate::handles<CUgraph_st>().has(graph)) return CUDA_ERROR_INVALID_VALUE;
  return simulate::begin_capture(stream, mode, graph, dependencies, count);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  // Who captures into a graph of its own has it.
  if (!graph && (!stream->capture || stream->capture->own_graph)) return CUDA_ERROR_INVALID_VALUE;
  return simulate::end_capture(stream, graph);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  TRY(simulate::check_implicit(stream));
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                        size_t* count) {
  CUstream stream;
  TRY(cuStreamIsCapturing(handle, status));
  TRY(simulate::resolve(handle, &stream));
  bool active = *status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id && *status != CU_STREAM_CAPTURE_STATUS_NONE) *id = stream->capture->id;
  if (graph) *graph = active ? stream->capture->graph : nullptr;
  if (dependencies) *dependencies = active ? stream->tips.data() : nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = active ? stream->tips.size() : 0;
  return CUDA_SUCCESS;
}

// The ABI of CUDA 11.3, without edge data.
__attribute__((visibility("default"))) CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle,
                                                                                  CUstreamCaptureStatus* status,
                                                                                  cuuint64_t* id, CUgraph* graph,
                                                                                  const CUgraphNode** dependencies,
                                                                                  size_t* count) {
  return cuStreamGetCaptureInfo(handle, status, id, graph, dependencies, nullptr, count);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* dependencies, const CUgraphEdgeData*,
                                                   size_t count, unsigned int flags) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!simulate::capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tips.clear();
  stream->tips.insert(stream->tips.end(), dependencies, dependencies + count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  TRY(ready());
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = simulate::exchange_mode(*mode);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  if (!event || (flags & ~7u)) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
  *event = new CUevent_st;
  (*event)->context = context;
  (*event)->flags = flags;
  (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  simulate::handles<CUevent_st>().add(*event);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  TRY(ready());
  if (!simulate::handles<CUevent_st>().remove(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (!simulate::outlives_destruction(event)) delete event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  if (!alive(event)) return CUDA_ERROR_INVALID_HANDLE;
  return simulate::record_event(event, stream, flags & CU_EVENT_RECORD_EXTERNAL);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  TRY(ready());
  if (!alive(event)) return CUDA_ERROR_INVALID_HANDLE;
  TRY(simulate::check_not_captured(event));
  TRY(simulate::check_unsafe());
  if (int sticky = event->context->sticky) return static_cast<CUresult>(sticky);
  if (event->completed >= event->recorded) return CUDA_SUCCESS;
  if (simulate::is_async()) simulate::asynchronous::asked(event);
  return CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  TRY(ready());
  if (!alive(event)) return CUDA_ERROR_INVALID_HANDLE;
  TRY(simulate::check_not_captured(event));
  TRY(simulate::check_unsafe());
  simulate::wait_event(event, event->recorded);
  simulate::host_waited(true);
  return static_cast<CUresult>(event->context->sticky.load());
}

CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  TRY(ready());
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!alive(start) || !alive(end) || !start->timed || !end->timed) return CUDA_ERROR_INVALID_HANDLE;
  if (start->context->device != end->context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (start->completed < start->recorded || end->completed < end->recorded) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((end->seconds - start->seconds) * 1e3);
  return CUDA_SUCCESS;
}

}  // extern "C"

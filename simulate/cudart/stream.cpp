// Streams, events and capture of the runtime API.
#include "simulate/cudart/runtime.h"

using namespace devtrace::simulate::cudart;

namespace {

struct Callback {
  cudaStreamCallback_t function;
  void* data;
};

void run_callback(CUstream stream, CUresult status, void* data) {
  auto* c = static_cast<Callback*>(data);
  c->function(stream, static_cast<cudaError_t>(status), c->data);
  delete c;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* stream) {
  FORWARD(cuStreamCreate(stream, CU_STREAM_DEFAULT));
}
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  FORWARD(cuStreamCreate(stream, flags));
}
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  FORWARD(cuStreamCreateWithPriority(stream, flags, priority));
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  FORWARD(cuStreamDestroy(stream));
}
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  FORWARD(cuStreamQuery(stream));
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  FORWARD(cuStreamSynchronize(stream));
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  FORWARD(cuStreamWaitEvent(stream, event, flags));
}
cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  FORWARD(cuStreamGetPriority(stream, priority));
}
cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  FORWARD(cuStreamGetFlags(stream, flags));
}
cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  FORWARD(cuStreamGetId(stream, id));
}
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t stream, int* device) {
  FORWARD(cuStreamGetDevice(stream, device));
}
cudaError_t CUDARTAPI cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  FORWARD(cuStreamCopyAttributes(to, from));
}
cudaError_t CUDARTAPI cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                             cudaLaunchAttributeValue* value) {
  FORWARD(cuStreamGetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                               reinterpret_cast<CUstreamAttrValue*>(value)));
}
cudaError_t CUDARTAPI cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                             const cudaLaunchAttributeValue* value) {
  FORWARD(cuStreamSetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                               reinterpret_cast<const CUstreamAttrValue*>(value)));
}
cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                            unsigned int flags) {
  CALL(ensure());
  if (!function) return done(cudaErrorInvalidValue);
  auto* callback = new Callback{function, data};
  CUresult e = cuStreamAddCallback(stream, run_callback, callback, flags);
  if (e) delete callback;
  return done(e);
}
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  FORWARD(cuLaunchHostFunc(stream, function, data));
}
cudaError_t CUDARTAPI cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t length, unsigned int flags) {
  FORWARD(cuStreamAttachMemAsync(stream, reinterpret_cast<CUdeviceptr>(pointer), length, flags));
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FORWARD(cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)));
}
cudaError_t CUDARTAPI cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                                                    size_t count, cudaStreamCaptureMode mode) {
  FORWARD(cuStreamBeginCaptureToGraph(stream, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                      count, static_cast<CUstreamCaptureMode>(mode)));
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FORWARD(cuStreamEndCapture(stream, graph));
}
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  FORWARD(cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)));
}
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               size_t* count) {
  cuuint64_t wide = 0;
  CALL(ensure());
  CUresult e = cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &wide, graph,
                                      dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (id) *id = wide;
  return done(e);
}
cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                          const cudaGraphEdgeData* edges, size_t count,
                                                          unsigned int flags) {
  FORWARD(cuStreamUpdateCaptureDependencies(stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                            count, flags));
}
cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  FORWARD(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  FORWARD(cuEventCreate(event, CU_EVENT_DEFAULT));
}
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  FORWARD(cuEventCreate(event, flags));
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  FORWARD(cuEventDestroy(event));
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FORWARD(cuEventRecord(event, stream));
}
cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  FORWARD(cuEventRecordWithFlags(event, stream, flags));
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  FORWARD(cuEventQuery(event));
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  FORWARD(cuEventSynchronize(event));
}
cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  FORWARD(cuEventElapsedTime(milliseconds, start, end));
}

cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  FORWARD(cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event));
}
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  CALL(ensure());
  CUipcEventHandle h;
  static_assert(sizeof h == sizeof handle);
  __builtin_memcpy(&h, &handle, sizeof h);
  return done(cuIpcOpenEventHandle(event, h));
}

}  // extern "C"

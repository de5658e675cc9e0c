// What CUDA 13.1 and 13.2 brought, for files with their runtime inside. A device has one execution context, its primary
// one: parts of a device (green contexts) are refused, like what else newer.names has and is not here.
#include <map>
#include <mutex>

#include "simulate/cudart/api_declarations.h"
#include "simulate/cudart/registry.h"

#if CUDART_VERSION >= 13000 && CUDART_VERSION < 13020

using namespace devtrace::simulate::cudart;

namespace {

// The context is the thread's while it lives.
class Within {
 public:
  explicit Within(cudaExecutionContext_t context) : result_(cuCtxPushCurrent(reinterpret_cast<CUcontext>(context))) {}
  ~Within() {
    CUcontext popped;
    if (!result_) cuCtxPopCurrent(&popped);
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
  CUresult result() const { return result_; }

 private:
  const CUresult result_;
};

// Numbers in the order in which handles are asked about.
unsigned number_of(const void* handle) {
  static std::mutex mutex;
  static auto* const numbers = new std::map<const void*, unsigned>;
  std::lock_guard lock(mutex);
  return numbers->try_emplace(handle, static_cast<unsigned>(numbers->size() + 1)).first->second;
}

cudaError_t number_of_node(cudaGraphNode_t node, unsigned* id) {
  CUgraphNodeType type;
  CALL(ensure());
  CALL(cuGraphNodeGetType(node, &type));
  *id = number_of(node);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaDeviceGetExecutionCtx(cudaExecutionContext_t* context, int device) {
  if (!context) return done(cudaErrorInvalidValue);
  CALL(quiet_cuInit(0));
  CALL(primary(device, reinterpret_cast<CUcontext*>(context)));
  return cudaSuccess;
}
// A device's own context is not the program's to destroy.
cudaError_t CUDARTAPI cudaExecutionCtxDestroy(cudaExecutionContext_t) {
  return done(cudaErrorInvalidValue);
}
cudaError_t CUDARTAPI cudaExecutionCtxGetDevice(int* device, cudaExecutionContext_t context) {
  const Within within(context);
  CALL(within.result());
  return device ? done(quiet_cuCtxGetDevice(device)) : done(cudaErrorInvalidValue);
}
cudaError_t CUDARTAPI cudaExecutionCtxGetId(cudaExecutionContext_t context, unsigned long long* id) {
  return done(cuCtxGetId(reinterpret_cast<CUcontext>(context), id));
}
cudaError_t CUDARTAPI cudaExecutionCtxRecordEvent(cudaExecutionContext_t context, cudaEvent_t event) {
  const Within within(context);
  CALL(within.result());
  return done(cuEventRecord(event, CU_STREAM_LEGACY));
}
cudaError_t CUDARTAPI cudaExecutionCtxStreamCreate(cudaStream_t* stream, cudaExecutionContext_t context,
                                                   unsigned int flags, int priority) {
  const Within within(context);
  CALL(within.result());
  return done(cuStreamCreateWithPriority(stream, flags, priority));
}
cudaError_t CUDARTAPI cudaExecutionCtxSynchronize(cudaExecutionContext_t context) {
  const Within within(context);
  CALL(within.result());
  return done(cuCtxSynchronize());
}
cudaError_t CUDARTAPI cudaExecutionCtxWaitEvent(cudaExecutionContext_t context, cudaEvent_t event) {
  const Within within(context);
  CALL(within.result());
  return done(cuStreamWaitEvent(CU_STREAM_LEGACY, event, 0));
}

cudaError_t CUDARTAPI cudaFuncGetParamCount(const void* stub, size_t* count) {
  if (!count) return done(cudaErrorInvalidValue);
  size_t offset, size;
  cudaFuncAttributes attributes;
  if (cudaError_t e = cudaFuncGetAttributes(&attributes, stub)) return e;
  const cudaError_t before = last_error;
  for (*count = 0; cudaFuncGetParamInfo(stub, *count, &offset, &size) == cudaSuccess;) ++*count;
  last_error = before;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphGetId(cudaGraph_t graph, unsigned int* id) {
  size_t nodes;
  CALL(ensure());
  CALL(cuGraphGetNodes(graph, nullptr, &nodes));
  if (!id) return done(cudaErrorInvalidValue);
  *id = number_of(graph);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphExecGetId(cudaGraphExec_t graph, unsigned int* id) {
  cuuint64_t flags;
  CALL(ensure());
  CALL(cuGraphExecGetFlags(graph, &flags));
  if (!id) return done(cudaErrorInvalidValue);
  *id = number_of(graph);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphNodeGetLocalId(cudaGraphNode_t node, unsigned int* id) {
  return id ? number_of_node(node, id) : done(cudaErrorInvalidValue);
}
cudaError_t CUDARTAPI cudaGraphNodeGetToolsId(cudaGraphNode_t node, unsigned long long* id) {
  unsigned number = 0;
  if (!id) return done(cudaErrorInvalidValue);
  if (cudaError_t e = number_of_node(node, &number)) return e;
  *id = number;
  return cudaSuccess;
}

// How a thread waits for the function is no matter here.
cudaError_t CUDARTAPI cudaLaunchHostFunc_v2(cudaStream_t stream, cudaHostFn_t function, void* data, unsigned int) {
  return cudaLaunchHostFunc(stream, function, data);
}
cudaError_t CUDARTAPI cudaMemcpyWithAttributesAsync(void* to, const void* from, size_t size, cudaMemcpyAttributes*,
                                                    cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream);
}

}  // extern "C"

#endif

// Contexts of the driver API.
#include "simulate/cuda/api.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/written.h"
#include "simulate/model/profiler_callbacks.h"
#include "simulate/model/stream.h"

namespace {

bool alive(CUcontext context) {
  return simulate::handles<CUctx_st>().has(context);
}

CUresult synchronize(CUcontext context) {
  TRY(simulate::check_unsafe());
  TRY(simulate::check_context(context));
  simulate::synchronize_context(context);
  simulate::notice(simulate::kSynchronize, simulate::kContextSynchronized, context);
  simulate::host_waited();
  return static_cast<CUresult>(context->sticky.load());
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  TRY(ready());
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  bool activated;
  TRY(simulate::retain_primary(device, context, &activated));
  if (activated) simulate::notice(simulate::kResource, simulate::kContextCreated, *context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  TRY(ready());
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  TRY(simulate::release_primary(device));
  if (simulate::device(device).retained == 0) {
    simulate::notice(simulate::kResource, simulate::kContextDestroyStarting, simulate::device(device).primary);
    simulate::end_memory_of(simulate::device(device).primary);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  TRY(ready());
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = simulate::device(device).flags;
  *active = simulate::device(device).retained > 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  TRY(ready());
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) || (flags & CU_CTX_SCHED_MASK) == 3 ||
      (flags & CU_CTX_SCHED_MASK) > CU_CTX_SCHED_BLOCKING_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  simulate::device(device).flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) {
  TRY(ready());
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (CUcontext primary = simulate::device(device).primary) {
    if (simulate::device(device).retained)
      simulate::notice(simulate::kResource, simulate::kContextDestroyStarting, primary);
    simulate::synchronize_context(primary);
    simulate::device(device).retained = 0;
    primary->sticky = CUDA_SUCCESS;
    primary->peers = 0;
    simulate::end_memory_of(primary);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  TRY(ready());
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = simulate::create_context(device, flags, false);
  if (!simulate::push_current(*context)) return CUDA_ERROR_INVALID_VALUE;
  simulate::notice(simulate::kResource, simulate::kContextCreated, *context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
  TRY(ready());
  if (!alive(context) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  simulate::notice(simulate::kResource, simulate::kContextDestroyStarting, context);
  simulate::synchronize_context(context);
  if (simulate::current() == context) simulate::pop_current();
  simulate::end_memory_of(context);
  simulate::destroy_context(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  TRY(ready());
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = simulate::current();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  TRY(ready());
  if (context && !alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
  simulate::set_current(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  TRY(ready());
  if (!alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return simulate::push_current(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  TRY(ready());
  CUcontext popped = simulate::pop_current();
  if (!popped) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = popped;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  REQUIRE_CONTEXT(context);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  TRY(ready());
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!context) return cuCtxGetDevice(device);
  if (!alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  REQUIRE_CONTEXT(context);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->primary ? simulate::device(context->device).flags.load() : context->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  REQUIRE_CONTEXT(context);
  context->flags = flags;
  if (context->primary) simulate::device(context->device).flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long* id) {
  TRY(ready());
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  if (!context) context = simulate::current();
  if (!alive(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  REQUIRE_CONTEXT(context);
  return synchronize(context);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context) {
  if (!context) return cuCtxSynchronize();
  TRY(ready());
  if (!alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return synchronize(context);
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  REQUIRE_CONTEXT(context);
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t* value, CUlimit limit) {
  REQUIRE_CONTEXT(context);
  if (!value || limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* config) {
  REQUIRE_CONTEXT(context);
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = context->cache;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  REQUIRE_CONTEXT(context);
  context->cache = config;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  TRY(ready());
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  if (context && !alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  REQUIRE_CONTEXT(context);
  if (least) *least = 0;
  if (greatest) *greatest = simulate::kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) {
  REQUIRE_CONTEXT(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!alive(peer) || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!simulate::can_access_peer(context->device, peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  uint32_t bit = 1u << peer->device;
  return context->peers.fetch_or(bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  REQUIRE_CONTEXT(context);
  if (!alive(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  uint32_t bit = 1u << peer->device;
  return context->peers.fetch_and(~bit) & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // extern "C"

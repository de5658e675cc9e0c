#include "simulate/cupti/activity.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>

#include "simulate/cupti/buffers.h"
#include "simulate/cupti/cupti_headers.h"
#include "simulate/cupti/names.h"
#include "simulate/cupti/subscribers.h"

namespace devtrace::simulate::cupti {
namespace {

// The newest record of each kind in the headers of this build.
using CopyRecord = CUpti_ActivityMemcpy6;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using SetRecord = CUpti_ActivityMemset4;
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif
using CallRecord = CUpti_ActivityAPI;
using ExternalRecord = CUpti_ActivityExternalCorrelation;

std::atomic<bool> g_kinds[CUPTI_ACTIVITY_KIND_COUNT];
std::atomic<bool> g_any{false};
std::mutex g_mutex;  // of enabling
std::atomic<CUpti_TimestampCallbackFunc> g_clock{nullptr};

bool on(CUpti_ActivityKind kind) {
  return g_kinds[kind].load(std::memory_order_relaxed);
}

// Calls have to be seen for their numbers, whatever is recorded.
void want(bool any) {
  if (g_any.exchange(any) == any) return;
  listen();
  devtrace_sim_work_want(any);
  for (CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API})
    for (uint32_t id = 1; id < callback_count(domain); ++id)
      devtrace_sim_calls_want(static_cast<Domain>(domain), id, kWantActivity, any);
}

CUptiResult enable(CUpti_ActivityKind kind, bool yes) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) return CUPTI_ERROR_INVALID_KIND;
  std::lock_guard lock(g_mutex);
  g_kinds[kind] = yes;
  bool any = false;
  for (const auto& k : g_kinds) any = any || k;
  want(any);
  return CUPTI_SUCCESS;
}

// Names outlive the kernels: records are read late.
const char* kept_name(const char* name) {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

uint8_t memory_kind(const CopyEndpoint& p) {
  switch (p.kind) {
    case CopyEndpoint::kPageable:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    case CopyEndpoint::kPinned:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    case CopyEndpoint::kDevice:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    case CopyEndpoint::kArray:
      return CUPTI_ACTIVITY_MEMORY_KIND_ARRAY;
    case CopyEndpoint::kManaged:
      return CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  }
  return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

bool between_devices(const Work& w) {
  return w.from.device >= 0 && w.to.device >= 0 && w.from.device != w.to.device;
}

uint8_t copy_kind(const Work& w) {
  if (between_devices(w)) return CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  enum { kHost, kDevice, kArray };
  auto side = [](const CopyEndpoint& p) {
    return p.kind == CopyEndpoint::kArray ? kArray : p.device >= 0 ? kDevice : kHost;
  };
  static constexpr uint8_t kKinds[3][3] = {
      // from, to
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMCPY_KIND_HTOA},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMCPY_KIND_DTOA},
      {CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, CUPTI_ACTIVITY_MEMCPY_KIND_ATOA}};
  return kKinds[side(w.from)][side(w.to)];
}

// What every record of a device's work has.
template <typename T>
T record_of(const Work& w, CUpti_ActivityKind kind) {
  T r = {};
  r.kind = kind;
  r.start = w.start;
  r.end = w.end;
  r.deviceId = w.device;
  r.contextId = w.context;
  r.streamId = w.stream;
  r.correlationId = w.correlation;
  return r;
}

template <typename T>
void fill_copy(T& r, const Work& w) {
  r.copyKind = copy_kind(w);
  r.srcKind = memory_kind(w.from);
  r.dstKind = memory_kind(w.to);
  r.flags = w.waited ? 0 : CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  r.bytes = w.bytes;
  r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
}

void record_kernel(const Work& w, CUpti_ActivityKind kind) {
  auto r = record_of<KernelRecord>(w, kind);
  r.completed = w.end;
  r.gridX = static_cast<int32_t>(w.grid[0]);
  r.gridY = static_cast<int32_t>(w.grid[1]);
  r.gridZ = static_cast<int32_t>(w.grid[2]);
  r.blockX = static_cast<int32_t>(w.block[0]);
  r.blockY = static_cast<int32_t>(w.block[1]);
  r.blockZ = static_cast<int32_t>(w.block[2]);
  r.staticSharedMemory = static_cast<int32_t>(w.static_shared);
  r.dynamicSharedMemory = static_cast<int32_t>(w.dynamic_shared);
  r.registersPerThread = static_cast<uint16_t>(w.registers);
  r.localMemoryPerThread = w.local;
  r.gridId = w.correlation;
  r.name = kept_name(w.name);
  r.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  keep(r);
}

// The ids that a thread said its calls belong to, innermost last. Plain memory: calls may come while a thread's
// destructors run. What is deeper than there is room for is counted, and its ids are lost.
struct ExternalIds {
  static constexpr uint32_t kMost = 256;
  uint64_t ids[kMost];
  uint32_t depth;
  void push(uint64_t id) {
    if (depth < kMost) ids[depth] = id;
    ++depth;
  }
  uint64_t last() const { return ids[depth < kMost ? depth - 1 : kMost - 1]; }
};
thread_local ExternalIds t_external[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

bool external_kind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

void record_external(uint32_t correlation) {
  for (int kind = 1; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind) {
    const ExternalIds& ids = t_external[kind];
    if (!ids.depth) continue;
    ExternalRecord r = {};
    r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    r.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
    r.externalId = ids.last();
    r.correlationId = correlation;
    keep(r);
  }
}

size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(PeerCopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(SetRecord);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CallRecord);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(ExternalRecord);
    default:
      return 0;
  }
}

}  // namespace

uint64_t now() {
  if (auto* clock = g_clock.load(std::memory_order_acquire)) return clock();
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

bool records_wanted() {
  return g_any.load(std::memory_order_relaxed);
}

// The driver's calls inside a runtime call have no record of their own.
void record_call(const Call& call, uint64_t end) {
  if (call.outer || !call.start) return;
  const CUpti_ActivityKind kind = call.domain == kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  if (!on(kind)) return;
  if (on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) record_external(call.correlation);
  CallRecord r = {};
  r.kind = kind;
  r.cbid = call.callback;
  r.start = call.start;
  r.end = end;
  r.processId = static_cast<uint32_t>(getpid());
  r.threadId = static_cast<uint32_t>(pthread_self());  // as the real library: of the thread's handle, not its kernel id
  r.correlationId = call.correlation;
  if (call.result) r.returnValue = *static_cast<const uint32_t*>(call.result);
  keep(r);
}

void record_work(const Work& w) {
  if (w.kind == Work::kKernel) {
    for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL})
      if (on(kind)) return record_kernel(w, kind);
  } else if (w.kind == Work::kSet) {
    if (!on(CUPTI_ACTIVITY_KIND_MEMSET)) return;
    auto r = record_of<SetRecord>(w, CUPTI_ACTIVITY_KIND_MEMSET);
    r.value = w.value;
    r.bytes = w.bytes;
    r.flags = w.waited ? 0 : CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
    r.memoryKind = memory_kind(w.to);
    r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
    keep(r);
  } else if (between_devices(w)) {
    if (!on(CUPTI_ACTIVITY_KIND_MEMCPY2) || !on(CUPTI_ACTIVITY_KIND_MEMCPY))
      return;  // never alone, as found on hardware
    auto r = record_of<PeerCopyRecord>(w, CUPTI_ACTIVITY_KIND_MEMCPY2);
    fill_copy(r, w);
    r.srcDeviceId = static_cast<uint32_t>(w.from.device);
    r.srcContextId = w.from.context;
    r.dstDeviceId = static_cast<uint32_t>(w.to.device);
    r.dstContextId = w.to.context;
    keep(r);
  } else if (on(CUPTI_ACTIVITY_KIND_MEMCPY)) {
    auto r = record_of<CopyRecord>(w, CUPTI_ACTIVITY_KIND_MEMCPY);
    fill_copy(r, w);
    r.copyCount = 1;
    keep(r);
  }
}

void deliver_full() {
  if (records_wanted()) fill_buffers(false);
}

void end_activity() {
  std::lock_guard lock(g_mutex);
  for (auto& kind : g_kinds) kind = false;
  want(false);
  forget_records();
}

}  // namespace devtrace::simulate::cupti

using namespace devtrace::simulate::cupti;

extern "C" {

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  return enable(kind, true);
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  return enable(kind, false);
}
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
  if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
  register_buffers(request, complete);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t) {
  if (!buffers_registered()) return CUPTI_ERROR_INVALID_OPERATION;
  fill_buffers(true);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}
CUptiResult CUPTIAPI cuptiActivityFlushPeriod(uint32_t) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t* buffer, size_t size, CUpti_Activity** record) {
  if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
  uint8_t* at = buffer;
  if (*record) at = reinterpret_cast<uint8_t*>(*record) + size_of((*record)->kind);
  if (at >= buffer + size) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(at);
  if (size - static_cast<size_t>(at - buffer) < sizeof *next || !size_of(next->kind)) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = dropped_records();
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (!external_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  t_external[kind].push(id);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
  if (!external_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  ExternalIds& ids = t_external[kind];
  if (!ids.depth) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last) *last = ids.last();
  --ids.depth;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  if (!clock) return CUPTI_ERROR_INVALID_PARAMETER;
  g_clock = clock;
  return CUPTI_SUCCESS;
}

// Taken, and without effect here.
CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnableLatencyTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}

}  // extern "C"

// Sharing memory and events between processes, by the files behind the devices' arenas.
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/shared.h"
#include "simulate/model/stream.h"
#include "simulate/settings/settings.h"

namespace {

using simulate::MemoryTicket;
static_assert(sizeof(MemoryTicket) <= sizeof(CUipcMemHandle));

struct EventTicket {
  char magic[16] = "devtrace-evt-1";
  int pid;
  CUevent event;
};
static_assert(sizeof(EventTicket) <= sizeof(CUipcEventHandle));

// What this process has opened, and how often: a handle that is opened again gives the address that it has.
struct Opened {
  CUdeviceptr address = 0;
  int times = 0;
};
using Origin =
    std::tuple<int, int, size_t, size_t, CUcontext>;  // process, file, offset, size; and the opener's context
std::mutex g_opened_mutex;
std::map<Origin, Opened> g_opened;

Origin origin_of(const MemoryTicket& t, CUcontext context) {
  return {t.pid, t.file, t.offset, t.size, context};
}

}  // namespace

extern "C" {

// The handle, without what cuIpcGetMemHandle waits for: who asks says by other means when the memory is ready.
__attribute__((visibility("default"))) CUresult devtrace_sim_memory_handle(CUipcMemHandle* handle,
                                                                           CUdeviceptr pointer) {
  simulate::Allocation a;
  if (!handle || !simulate::find_memory(pointer, &a) || a.kind != simulate::AllocationKind::device || a.pool)
    return CUDA_ERROR_INVALID_VALUE;
  const MemoryTicket t = simulate::ticket_of(a);
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &t, sizeof t);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  TRY(devtrace_sim_memory_handle(handle, pointer));
  simulate::finish_work();  // another process cannot make this one go on
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int flags) {
  REQUIRE_CONTEXT(context);
  MemoryTicket t;
  if (!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !simulate::read_ticket(&handle, &t))
    return CUDA_ERROR_INVALID_VALUE;
  if (t.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // as hardware: not in the process that made it
  int ordinal = simulate::ordinal_of(t);
  if (ordinal < 0) return CUDA_ERROR_INVALID_DEVICE;
  // The only flag there is: this device may reach that one's memory from now on.
  if (simulate::can_access_peer(context->device, ordinal)) context->peers |= 1u << ordinal;
  std::lock_guard lock(g_opened_mutex);
  if (const auto known = g_opened.find(origin_of(t, context)); known != g_opened.end()) {
    ++known->second.times;
    *pointer = known->second.address;
    return CUDA_SUCCESS;
  }
  TRY(simulate::open_ticket(t, context, nullptr, pointer));
  g_opened[origin_of(t, context)] = {*pointer, 1};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr pointer) {
  REQUIRE_CONTEXT(context);
  simulate::Allocation a;
  if (!simulate::find_memory(pointer, &a) || a.kind != simulate::AllocationKind::imported || a.base != pointer ||
      a.pool)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_opened_mutex);
  for (auto it = g_opened.begin(); it != g_opened.end(); ++it)
    if (it->second.address == pointer) {
      if (--it->second.times) return CUDA_SUCCESS;
      g_opened.erase(it);
      break;
    }
  return simulate::close_imported(pointer);
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  REQUIRE_CONTEXT(context);
  if (!handle || !simulate::handles<CUevent_st>().has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (!(event->flags & CU_EVENT_INTERPROCESS)) return CUDA_ERROR_INVALID_HANDLE;
  EventTicket t;
  t.pid = getpid();
  t.event = event;
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &t, sizeof t);
  return CUDA_SUCCESS;
}

// Work is done when it is enqueued, so by the time a handle has crossed to another process its event is complete, and
// so is the one opened here.
CUresult CUDAAPI cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  REQUIRE_CONTEXT(context);
  EventTicket t, expected;
  std::memcpy(static_cast<void*>(&t), &handle, sizeof t);
  if (!event || std::memcmp(t.magic, expected.magic, sizeof t.magic)) return CUDA_ERROR_INVALID_VALUE;
  if (t.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  return cuEventCreate(event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}

}  // extern "C"

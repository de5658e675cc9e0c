// Who allows which device to reach another's memory, and whether the program asked for it itself: what a framework
// allows for its own copies excuses nobody's kernel.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cerrno>
#include <string_view>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/hook.h"
#include "interpose/linking/lazy_symbol.h"
#include "tracker/base/address_map.h"
#include "tracker/events.h"

using devtrace::Device;
using devtrace::interpose::Call;
using devtrace::interpose::device_of_context;
using devtrace::interpose::emit_opened;
using devtrace::interpose::exact_current_device;
using devtrace::interpose::exact_owner;
using devtrace::interpose::LazySymbol;
namespace events = devtrace::events;

namespace {

// Libraries that allow peers for themselves, by the start of their file names.
constexpr std::string_view kFrameworks[] = {"libtorch", "libc10", "libnccl", "libnvshmem"};

// Whether the code at a return address is the program's, and no framework's.
bool own(const void* caller) {
  const int saved = errno;
  Dl_info info{};
  std::string_view file = ::dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "";
  errno = saved;
  if (const size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  for (const std::string_view framework : kFrameworks)
    if (file.starts_with(framework)) return false;
  return true;
}

void emit_peer_change(int device, int peer, bool allowed, const void* caller) {
  if (device >= 0 && peer >= 0 && device != peer) events::peers_changed(device, peer, allowed, own(caller));
}

// Allowing what is allowed already is an error, and still the program's own word.
bool done(int code) {
  return code == 0 || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}
static_assert(int{cudaErrorPeerAccessAlreadyEnabled} == int{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED});

// Pools that the program made, and the device where their memory lies; a device's own pools can be asked for.
struct Pool {
  uintptr_t handle = 0;
  int device = -1;
  uint64_t key() const { return handle; }
};
constinit devtrace::AddressMap<Pool> pools;

constinit LazySymbol<decltype(&::cuDeviceGetCount)> device_count("libcuda.so", "cuDeviceGetCount");
constinit LazySymbol<decltype(&::cuDeviceGetMemPool)> current_pool("libcuda.so", "cuDeviceGetMemPool");
constinit LazySymbol<decltype(&::cuDeviceGetDefaultMemPool)> default_pool("libcuda.so", "cuDeviceGetDefaultMemPool");

int device_of_pool(const void* handle) {
  Pool pool;
  if (pools.get(reinterpret_cast<uintptr_t>(handle), pool)) return pool.device;
  int count = 0;
  if (!device_count.get() || device_count.get()(&count) != CUDA_SUCCESS) return -1;
  for (int device = 0; device < count; ++device)
    for (const auto ask : {default_pool.get(), current_pool.get()}) {
      CUmemoryPool of_device = nullptr;
      if (ask && ask(&of_device, device) == CUDA_SUCCESS && of_device == handle) return device;
    }
  return -1;
}

// The runtime's description of an access is the driver's.
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(int{cudaMemLocationTypeDevice} == int{CU_MEM_LOCATION_TYPE_DEVICE});
static_assert(int{cudaMemAccessFlagsProtNone} == int{CU_MEM_ACCESS_FLAGS_PROT_NONE});

void emit_peer_accesses(int owner, const CUmemAccessDesc* accesses, size_t count, const void* caller) {
  for (size_t i = 0; accesses && i < count; ++i)
    if (accesses[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      emit_peer_change(accesses[i].location.id, owner, accesses[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE, caller);
}

// Another process's memory, whose device the current one may reach from then on, if the program says so.
void on_opened(uint64_t address, unsigned flags, const void* caller) {
  emit_opened(address);
  if (!(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return;
  if (const Device owner = exact_owner(address); owner.is_cuda())
    emit_peer_change(exact_current_device(), owner.index, true, caller);
}
static_assert(cudaIpcMemLazyEnablePeerAccess == int{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS});

}  // namespace

RUNTIME_HOOK(cudaIpcOpenMemHandle, (void** pointer, cudaIpcMemHandle_t handle, unsigned flags)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaIpcOpenMemHandle, (pointer, handle, flags));
  if (call.enabled() && result == cudaSuccess) on_opened(reinterpret_cast<uintptr_t>(*pointer), flags, call.caller());
  return result;
}

#define DRIVER_OPEN(symbol)                                                                    \
  DRIVER_HOOK(symbol, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags)) {        \
    const Call call;                                                                           \
    const CUresult result = CALL_DRIVER(symbol, (address, handle, flags));                     \
    if (result == CUDA_SUCCESS && call.outermost()) on_opened(*address, flags, call.caller()); \
    return result;                                                                             \
  }
DRIVER_OPEN(cuIpcOpenMemHandle)
DRIVER_OPEN(cuIpcOpenMemHandle_v2)

RUNTIME_HOOK(cudaDeviceEnablePeerAccess, (int peer, unsigned flags)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaDeviceEnablePeerAccess, (peer, flags));
  if (call.enabled() && done(result)) emit_peer_change(exact_current_device(), peer, true, call.caller());
  return result;
}

RUNTIME_HOOK(cudaDeviceDisablePeerAccess, (int peer)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaDeviceDisablePeerAccess, (peer));
  if (call.enabled() && done(result)) emit_peer_change(exact_current_device(), peer, false, call.caller());
  return result;
}

DRIVER_HOOK(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuCtxEnablePeerAccess, (peer, flags));
  if (done(result) && call.outermost())
    emit_peer_change(exact_current_device(), device_of_context(peer), true, call.caller());
  return result;
}

DRIVER_HOOK(cuCtxDisablePeerAccess, (CUcontext peer)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuCtxDisablePeerAccess, (peer));
  if (done(result) && call.outermost())
    emit_peer_change(exact_current_device(), device_of_context(peer), false, call.caller());
  return result;
}

RUNTIME_HOOK(cudaMemPoolSetAccess, (cudaMemPool_t pool, const cudaMemAccessDesc* accesses, size_t count)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaMemPoolSetAccess, (pool, accesses, count));
  if (call.enabled() && done(result))
    emit_peer_accesses(device_of_pool(pool), reinterpret_cast<const CUmemAccessDesc*>(accesses), count, call.caller());
  return result;
}

DRIVER_HOOK(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc* accesses, size_t count)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemPoolSetAccess, (pool, accesses, count));
  if (done(result) && call.outermost()) emit_peer_accesses(device_of_pool(pool), accesses, count, call.caller());
  return result;
}

DRIVER_HOOK(cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* accesses, size_t count)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemSetAccess, (address, bytes, accesses, count));
  if (done(result) && call.outermost())
    if (const Device owner = exact_owner(address); owner.is_cuda()) {
      emit_peer_accesses(owner.index, accesses, count, call.caller());
      if (own(call.caller())) events::range_opened(reinterpret_cast<const void*>(address), bytes);
    }
  return result;
}

// A pool keeps its device for as long as it lives. Its end, and a trim, give back only memory that nobody holds:
// nothing is to be forgotten then, and trims are not hooked.
DRIVER_HOOK(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps* properties)) {
  const Call call;
  const CUresult result = CALL_DRIVER(cuMemPoolCreate, (pool, properties));
  if (result == CUDA_SUCCESS && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    pools.put({reinterpret_cast<uintptr_t>(*pool), properties->location.id});
  return result;
}

DRIVER_HOOK(cuMemPoolDestroy, (CUmemoryPool pool)) {
  const Call call;
  Pool known;
  if (call.entering()) pools.take(reinterpret_cast<uintptr_t>(pool), known);
  return CALL_DRIVER(cuMemPoolDestroy, (pool));
}

// The runtime's own pools come out of the driver's function, but by a pointer that need not be ours.
RUNTIME_HOOK(cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties)) {
  const Call call;
  const cudaError_t result = CALL_RUNTIME(cudaMemPoolCreate, (pool, properties));
  if (result == cudaSuccess && properties->location.type == cudaMemLocationTypeDevice)
    pools.put({reinterpret_cast<uintptr_t>(*pool), properties->location.id});
  return result;
}

RUNTIME_HOOK(cudaMemPoolDestroy, (cudaMemPool_t pool)) {
  const Call call;
  Pool known;
  if (call.entering()) pools.take(reinterpret_cast<uintptr_t>(pool), known);
  return CALL_RUNTIME(cudaMemPoolDestroy, (pool));
}

// Functions of NCCL's about memory: its own, a program's that is made known to a communicator, and what a communicator
// takes.
#include <cstdint>

#include "simulate/nccl/calls.h"

namespace devtrace::simulate::nccl {
namespace {

// What ncclCommWindowRegister gives out.
struct Window {
  void* memory;
};
Window* window_of(ncclWindow_t handle) {
  return reinterpret_cast<Window*>(handle);
}

}  // namespace
}  // namespace devtrace::simulate::nccl

namespace sim = devtrace::simulate::nccl;

extern "C" {

ncclResult_t ncclMemAlloc(void** memory, size_t size) {
  if (!memory) return ncclInvalidArgument;
  CUdeviceptr made = 0;
  if (cuMemAlloc(&made, size)) return sim::refuse(ncclUnhandledCudaError, "a CUDA call failed");
  *memory = reinterpret_cast<void*>(made);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  return cuMemFree(reinterpret_cast<CUdeviceptr>(memory)) ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void*, size_t, void** handle) {
  if (!handle || !sim::rank_of(comm)) return sim::no_communicator();
  *handle = comm;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return sim::rank_of(comm) ? ncclSuccess : sim::no_communicator();
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t, ncclWindow_t* window, int) {
  if (!window || !sim::rank_of(comm)) return sim::no_communicator();
  if (reinterpret_cast<uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT)
    return sim::refuse(ncclInvalidArgument, "a window begins at a multiple of 4096 bytes");
  *window = reinterpret_cast<ncclWindow_t>(new sim::Window{memory});
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (!sim::rank_of(comm)) return sim::no_communicator();
  delete sim::window_of(window);
  return ncclSuccess;
}
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** memory) {
  if (!memory || !sim::rank_of(comm)) return sim::no_communicator();
  *memory = window ? sim::window_of(window)->memory : nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  if (flags != NCCL_SUSPEND_MEM) return sim::refuse(ncclInvalidArgument, "flags are not NCCL_SUSPEND_MEM");
  rank->suspended = true;
  return ncclSuccess;
}
ncclResult_t ncclCommResume(ncclComm_t comm) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  rank->suspended = false;
  return ncclSuccess;
}
// What ranks share is the host's: a communicator takes no memory of a device.
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t which, uint64_t* value) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!value || !rank) return sim::no_communicator();
  *value = which == ncclStatGpuMemSuspended && rank->suspended;
  return ncclSuccess;
}

}  // extern "C"

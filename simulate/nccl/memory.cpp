// Functions of NCCL's about memory: its own, a program's buffers, and what a communicator takes.
#include <cstdint>

#include "simulate/nccl/calls.h"

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

// NCCL within one process: what nn.DataParallel, torch.cuda.comm and torch.cuda.nccl call, and process groups of a
// single rank. Ranks of several processes are refused.
#include <sys/random.h>

#include <atomic>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "simulate/nccl/communicator.h"
#include "simulate/nccl/reduction.h"

namespace devtrace::simulate::nccl {
namespace {

thread_local std::string t_error;  // of the last call that failed

ncclResult_t refuse(ncclResult_t code, std::string why) {
  t_error = std::move(why);
  return code;
}

// The calls between ncclGroupStart and ncclGroupEnd.
struct Calls {
  int depth = 0;
  ncclResult_t result = ncclSuccess;  // of the first one that was refused
  std::vector<Request> requests;
};
thread_local Calls t_calls;

ncclResult_t end_group() {
  if (t_calls.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--t_calls.depth > 0) return ncclSuccess;
  Calls calls = std::exchange(t_calls, {});
  if (calls.result != ncclSuccess) return calls.result;
  const ncclResult_t result = perform(std::move(calls.requests));
  return result == ncclSuccess ? result : refuse(result, "a CUDA call failed");
}

bool reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduce || kind == OperationKind::kReduceScatter;
}

ncclResult_t check(const Request& r) {
  if (!alive(r.rank)) return refuse(ncclInvalidArgument, "comm argument is not a communicator");
  if (size_of(r.type) == 0) return refuse(ncclInvalidArgument, "datatype " + std::to_string(r.type) + " is invalid");
  if (r.other < 0 || r.other >= r.rank->ranks->size)
    return refuse(ncclInvalidArgument, "rank " + std::to_string(r.other) + " is not of this communicator");
  if (reduces(r.kind) && !can_reduce(r.type, r.op))
    return refuse(ncclInvalidArgument,
                  "op " + std::to_string(r.op) + " of datatype " + std::to_string(r.type) + " is not simulated");
  return ncclSuccess;
}

ncclResult_t ask(const Request& request) {
  const bool alone = t_calls.depth == 0;
  const ncclResult_t result = check(request);
  if (alone) {
    if (result != ncclSuccess) return result;
    const ncclResult_t done = perform({request});
    return done == ncclSuccess ? done : refuse(done, "a CUDA call failed");
  }
  if (result == ncclSuccess)
    t_calls.requests.push_back(request);
  else if (t_calls.result == ncclSuccess)
    t_calls.result = result;
  return result;
}

// A communicator of this process alone.
ncclResult_t init_rank(ncclComm_t* comm, int ranks, int rank) {
  if (!comm || ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "invalid rank requested");
  *comm = nullptr;
  if (ranks > 1) {
    static const char kWhy[] =
        "NCCL between processes is not simulated; in a rehearsal use the backend gloo, "
        "which takes CUDA tensors too: torch.distributed.init_process_group(\"gloo\")";
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) std::fprintf(stderr, "devtrace: %s\n", kWhy);
    return refuse(ncclInvalidUsage, kWhy);
  }
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (cuInit(0) || cuCtxGetCurrent(&context) || (context && cuCtxGetDevice(&device)))
    return refuse(ncclUnhandledCudaError, "a CUDA call failed");
  const std::vector<Rank*> made = make({device});
  if (made.empty()) return refuse(ncclUnhandledCudaError, "a CUDA call failed");
  *comm = reinterpret_cast<ncclComm_t>(made[0]);
  return ncclSuccess;
}

ncclResult_t close(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  return destroy(rank_of(comm)) ? ncclSuccess : refuse(ncclInvalidArgument, "comm argument is not a communicator");
}

template <class T>
ncclResult_t answer(ncclComm_t comm, T* out, T Rank::*member) {
  if (!out || !alive(rank_of(comm))) return refuse(ncclInvalidArgument, "comm argument is not a communicator");
  *out = rank_of(comm)->*member;
  return ncclSuccess;
}

}  // namespace
}  // namespace devtrace::simulate::nccl

namespace sim = devtrace::simulate::nccl;
using sim::OperationKind;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return sim::t_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (!id) return ncclInvalidArgument;
  return getrandom(id->internal, sizeof id->internal, 0) == static_cast<ssize_t>(sizeof id->internal) ? ncclSuccess
                                                                                                      : ncclSystemError;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  int known = 0;
  if (!comms || count < 1) return sim::refuse(ncclInvalidArgument, "Invalid device count requested");
  if (cuInit(0) || cuDeviceGetCount(&known)) return sim::refuse(ncclUnhandledCudaError, "a CUDA call failed");
  std::vector<int> wanted;
  for (int i = 0; i < count; ++i) wanted.push_back(devices ? devices[i] : i);
  for (const int each : wanted)
    if (each < 0 || each >= known)
      return sim::refuse(ncclInvalidArgument, "Invalid device index " + std::to_string(each));
  if (std::set<int>(wanted.begin(), wanted.end()).size() < wanted.size())
    return sim::refuse(ncclInvalidUsage, "Duplicate GPU detected");
  const std::vector<sim::Rank*> made = sim::make(wanted);
  if (made.empty()) return sim::refuse(ncclUnhandledCudaError, "a CUDA call failed");
  for (size_t i = 0; i < made.size(); ++i) comms[i] = reinterpret_cast<ncclComm_t>(made[i]);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId, int rank) {
  return sim::init_rank(comm, ranks, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int rank, ncclConfig_t*) {
  return sim::init_rank(comm, ranks, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int, ncclUniqueId*, ncclConfig_t*) {
  return sim::init_rank(comm, ranks, rank);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return sim::alive(sim::rank_of(comm)) ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return sim::close(comm);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return sim::close(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!error || !sim::alive(sim::rank_of(comm))) return ncclInvalidArgument;
  *error = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!count || !sim::alive(sim::rank_of(comm))) return ncclInvalidArgument;
  *count = sim::rank_of(comm)->ranks->size;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return sim::answer(comm, device, &sim::Rank::device);
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return sim::answer(comm, rank, &sim::Rank::rank);
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void*, size_t, void** handle) {
  if (!handle || !sim::alive(sim::rank_of(comm))) return ncclInvalidArgument;
  *handle = comm;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return sim::alive(sim::rank_of(comm)) ? ncclSuccess : ncclInvalidArgument;
}

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

ncclResult_t ncclGroupStart() {
  ++sim::t_calls.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return sim::end_group();
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return sim::ask({OperationKind::kAllReduce, send, receive, count, type, op, 0, sim::rank_of(comm), stream});
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return sim::ask({OperationKind::kReduce, send, receive, count, type, op, root, sim::rank_of(comm), stream});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return sim::ask({OperationKind::kBroadcast, send, receive, count, type, ncclSum, root, sim::rank_of(comm), stream});
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return sim::ask({OperationKind::kAllGather, send, receive, count, type, ncclSum, 0, sim::rank_of(comm), stream});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return sim::ask({OperationKind::kReduceScatter, send, receive, count, type, op, 0, sim::rank_of(comm), stream});
}
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return sim::ask({OperationKind::kAllToAll, send, receive, count, type, ncclSum, 0, sim::rank_of(comm), stream});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return sim::ask({OperationKind::kSend, send, nullptr, count, type, ncclSum, peer, sim::rank_of(comm), stream});
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return sim::ask({OperationKind::kReceive, nullptr, receive, count, type, ncclSum, peer, sim::rank_of(comm), stream});
}

}  // extern "C"

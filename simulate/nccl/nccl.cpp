// NCCL between the ranks of one machine, in one process or several: what PyTorch's process groups, nn.DataParallel,
// torch.cuda.comm and torch.cuda.nccl call.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "simulate/nccl/calls.h"
#include "simulate/nccl/version.h"

namespace devtrace::simulate::nccl {
namespace {

thread_local std::string t_error;  // of the last call that failed

// The calls between ncclGroupStart and ncclGroupEnd.
struct Calls {
  struct Init {
    Joining joining;
    ncclComm_t* comm;
  };
  int depth = 0;
  ncclResult_t result = ncclSuccess;  // of the first one that was refused
  std::vector<Request> requests;
  std::vector<Init> inits;
  std::vector<std::shared_ptr<Window>> windows;
};
thread_local Calls t_calls;

ncclResult_t join(std::vector<Calls::Init> all) {
  for (const auto step : {&Joining::start, &Joining::enter, &Joining::meet})
    for (Calls::Init& each : all)
      if (const ncclResult_t result = (each.joining.*step)()) {
        for (Calls::Init& one : all) {
          close(*one.comm, true);
          *one.comm = nullptr;
        }
        std::fprintf(stderr, "devtrace: NCCL: %s\n", each.joining.why().c_str());
        return refuse(result, each.joining.why());
      }
  return ncclSuccess;
}

ncclResult_t register_all(const std::vector<std::shared_ptr<Window>>& all) {
  for (const auto& each : all) each->publish();
  for (const auto& each : all)
    if (const ncclResult_t result = each->open()) return refuse(result, each->rank()->why);
  return ncclSuccess;
}

ncclResult_t perform_all(std::vector<Request> requests) {
  const ncclResult_t result = perform(std::move(requests));
  return result == ncclSuccess ? result : refuse(result, "a CUDA call failed");
}

ncclResult_t end_group() {
  if (t_calls.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--t_calls.depth > 0) return ncclSuccess;
  Calls calls = std::exchange(t_calls, {});
  if (calls.result != ncclSuccess) return calls.result;
  ncclResult_t result = join(std::move(calls.inits));
  if (result == ncclSuccess) result = register_all(calls.windows);
  return result == ncclSuccess ? perform_all(std::move(calls.requests)) : result;
}

bool reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduce || kind == OperationKind::kReduceScatter;
}

bool is_collective(OperationKind kind) {
  return kind < OperationKind::kSend;
}

// An operation of ncclRedOpCreatePreMulSum is a sum of what each rank has scaled by its own.
void resolve_op(Rank& rank, Exchange* exchange) {
  const int own = exchange->call.op - ncclNumOps;
  const std::lock_guard lock(rank.mutex);
  if (own < 0 || own >= static_cast<int>(rank.scales.size()) || !rank.scales[static_cast<size_t>(own)].scales) return;
  exchange->scale = rank.scales[static_cast<size_t>(own)];
  exchange->call.op = ncclSum;
}

ncclResult_t check(const Request& request) {
  const Call& call = request.exchange.call;
  if (!request.rank) return no_communicator();
  if (request.rank->revoked) return refuse(ncclInvalidUsage, "the communicator was revoked");
  if (request.rank->suspended) return refuse(ncclInvalidUsage, "the communicator is suspended");
  if (size_of(call.type) == 0)
    return refuse(ncclInvalidArgument, "datatype " + std::to_string(call.type) + " is invalid");
  if (call.other < 0 || call.other >= request.rank->size)
    return refuse(ncclInvalidArgument, "rank " + std::to_string(call.other) + " is not of this communicator");
  if (reduces(call.kind) && !can_reduce(call.type, call.op))
    return refuse(ncclInvalidArgument, "op " + std::to_string(call.op) + " is not known");
  return ncclSuccess;
}

ncclResult_t ask(ncclComm_t comm, CUstream stream, const Call& call, const void* send, void* receive) {
  Request request = {rank_of(comm), stream, {}};
  request.exchange.call = call;
  request.exchange.send = send;
  request.exchange.receive = receive;
  return submit(std::move(request));
}

template <class T>
ncclResult_t answer(ncclComm_t comm, T* out, T Place::*member) {
  const std::shared_ptr<Rank> rank = rank_of(comm);
  if (!out || !rank) return no_communicator();
  *out = (*rank).*member;
  return ncclSuccess;
}

}  // namespace

ncclResult_t refuse(ncclResult_t code, std::string why) {
  t_error = std::move(why);
  return code;
}

ncclResult_t no_communicator() {
  return refuse(ncclInvalidArgument, "comm argument is not a communicator");
}

ncclResult_t refuse_group(ncclResult_t result) {
  if (t_calls.result == ncclSuccess) t_calls.result = result;
  return result;
}

ncclResult_t submit(Request request) {
  if (request.rank) resolve_op(*request.rank, &request.exchange);
  const ncclResult_t result = check(request);
  const bool nothing = request.exchange.call.count == 0 && is_collective(request.exchange.call.kind);
  if (t_calls.depth == 0) return result != ncclSuccess || nothing ? result : perform_all({std::move(request)});
  if (result != ncclSuccess) return refuse_group(result);
  if (!nothing) t_calls.requests.push_back(std::move(request));
  return result;
}

ncclResult_t register_window(const std::shared_ptr<Window>& window) {
  if (t_calls.depth == 0) return register_all({window});
  t_calls.windows.push_back(window);
  return ncclSuccess;
}

ncclResult_t init(Joining joining, ncclComm_t* comm) {
  Calls::Init one = {std::move(joining), comm};
  if (t_calls.depth == 0) return join({std::move(one)});
  t_calls.inits.push_back(std::move(one));
  return ncclSuccess;
}

}  // namespace devtrace::simulate::nccl

namespace sim = devtrace::simulate::nccl;
using sim::OperationKind;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = sim::version();
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

const char* ncclGetLastError(ncclComm_t comm) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (rank && rank->error != ncclSuccess) {
    const std::lock_guard lock(rank->mutex);
    sim::t_error = rank->why;
  }
  return sim::t_error.c_str();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!error || !rank) return sim::no_communicator();
  *error = rank->error;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return sim::answer(comm, count, &sim::Place::size);
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!device || !rank) return sim::no_communicator();
  *device = rank->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return sim::answer(comm, rank, &sim::Place::rank);
}
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  if (!op || !scalar || sim::size_of(type) == 0) return sim::refuse(ncclInvalidArgument, "no scalar");
  sim::Scale scale = {true, nullptr, {}};
  if (residence == ncclScalarDevice)
    scale.at = scalar;
  else
    std::memcpy(scale.value, scalar, sim::size_of(type));
  const std::lock_guard lock(rank->mutex);
  auto at = std::find_if(rank->scales.begin(), rank->scales.end(), [](const auto& each) { return !each.scales; });
  if (at == rank->scales.end()) at = rank->scales.insert(at, sim::Scale());
  *at = scale;
  *op = static_cast<ncclRedOp_t>(ncclNumOps + (at - rank->scales.begin()));
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  const std::lock_guard lock(rank->mutex);
  const auto at = static_cast<size_t>(op) - ncclNumOps;
  if (op < ncclNumOps || at >= rank->scales.size())
    return sim::refuse(ncclInvalidArgument, "op is not of this communicator");
  rank->scales[at] = {};
  return ncclSuccess;
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
  return sim::ask(comm, stream, {OperationKind::kAllReduce, type, op, 0, count}, send, receive);
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kReduce, type, op, root, count}, send, receive);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kBroadcast, type, ncclSum, root, count}, send, receive);
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kAllGather, type, ncclSum, 0, count}, send, receive);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kReduceScatter, type, op, 0, count}, send, receive);
}
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kAllToAll, type, ncclSum, 0, count}, send, receive);
}
ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kGather, type, ncclSum, root, count}, send, receive);
}
ncclResult_t ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kScatter, type, ncclSum, root, count}, send, receive);
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kSend, type, ncclSum, peer, count}, send, nullptr);
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return sim::ask(comm, stream, {OperationKind::kReceive, type, ncclSum, peer, count}, nullptr, receive);
}

}  // extern "C"

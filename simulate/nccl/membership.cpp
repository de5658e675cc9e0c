// Functions of NCCL's that make communicators, out of ids or of other communicators, and end them.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "simulate/nccl/calls.h"

namespace devtrace::simulate::nccl {
namespace {

ncclResult_t current_device(int* device) {
  CUcontext context = nullptr;
  *device = 0;
  return cuInit(0) || cuCtxGetCurrent(&context) || (context && cuCtxGetDevice(device))
             ? refuse(ncclUnhandledCudaError, "a CUDA call failed")
             : ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  if (!comm || ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "Invalid rank requested");
  *comm = nullptr;
  if (ranks > kMaxRanks) return refuse(ncclInvalidUsage, "a rehearsal has fewer devices than ranks");
  int device = 0;
  if (const ncclResult_t result = current_device(&device)) return result;
  const std::shared_ptr<Rank> made = make(device);
  if (!made) return refuse(ncclUnhandledCudaError, "a CUDA call failed");
  made->rank = rank;
  made->size = ranks;
  *comm = handle_of(made);
  return init(Joining(made, id), comm);
}

// A communicator of the parent's `ranks`, and of `size` in all. One of the ranks `from` has the id.
ncclResult_t init_from(const std::shared_ptr<Rank>& parent, int rank, int size, std::vector<int> ranks,
                       const ncclUniqueId* id, std::vector<int> from, ncclComm_t* comm) {
  const std::shared_ptr<Rank> made = make(parent->device);
  if (!made) return refuse(ncclUnhandledCudaError, "a CUDA call failed");
  made->rank = rank;
  made->size = size;
  *comm = handle_of(made);
  return init(Joining(made, parent, std::move(ranks), id, std::move(from)), comm);
}

}  // namespace
}  // namespace devtrace::simulate::nccl

namespace sim = devtrace::simulate::nccl;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (!id) return ncclInvalidArgument;
  return sim::Region::create(id) ? ncclSuccess : sim::refuse(ncclSystemError, "no memory to share with other ranks");
}
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return sim::rank_of(comm) ? ncclGetUniqueId(id) : sim::no_communicator();
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
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id)) return result;
  ncclGroupStart();
  for (int i = 0; i < count; ++i) {
    const std::shared_ptr<sim::Rank> made = sim::make(wanted[static_cast<size_t>(i)]);
    if (!made) {
      sim::refuse_group(sim::refuse(ncclUnhandledCudaError, "a CUDA call failed"));
      break;
    }
    made->rank = i;
    made->size = count;
    comms[i] = sim::handle_of(made);
    sim::init(sim::Joining(made, id), &comms[i]);
  }
  return ncclGroupEnd();
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return sim::init_rank(comm, ranks, id, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return sim::init_rank(comm, ranks, id, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int count, ncclUniqueId* ids,
                                      ncclConfig_t*) {
  if (count < 1 || !ids) return sim::refuse(ncclInvalidArgument, "there is no id");
  return sim::init_rank(comm, ranks, ids[0], rank);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  const std::shared_ptr<sim::Rank> parent = sim::rank_of(comm);
  if (!parent || !made) return sim::no_communicator();
  *made = nullptr;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
    return sim::refuse(ncclInvalidArgument, "color " + std::to_string(color) + " is negative");
  const std::shared_ptr<sim::Rank> rank = sim::make(parent->device);
  if (!rank) return sim::refuse(ncclUnhandledCudaError, "a CUDA call failed");
  if (color != NCCL_SPLIT_NOCOLOR) *made = sim::handle_of(rank);
  return sim::init(sim::Joining(rank, parent, color, key), made);
}
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t*, int flags) {
  const std::shared_ptr<sim::Rank> parent = sim::rank_of(comm);
  if (!parent || !made) return sim::no_communicator();
  *made = nullptr;
  if (!excluded || count < 1) return sim::refuse(ncclInvalidArgument, "no rank is excluded");
  const std::set<int> out(excluded, excluded + count);
  if (*out.begin() < 0 || *out.rbegin() >= parent->size)
    return sim::refuse(ncclInvalidArgument, "a rank is excluded that is not of this communicator");
  if (out.count(parent->rank))
    return sim::refuse(ncclInvalidArgument, "rank " + std::to_string(parent->rank) + " is excluded and calls");
  std::vector<int> ranks;
  for (int rank = 0; rank < parent->size; ++rank)
    if (!out.count(rank)) ranks.push_back(rank);
  if (flags & NCCL_SHRINK_ABORT) sim::revoke(*parent);
  ncclUniqueId id;
  const bool first = ranks[0] == parent->rank;
  if (first)
    if (const ncclResult_t result = ncclGetUniqueId(&id)) return result;
  const auto own = std::find(ranks.begin(), ranks.end(), parent->rank) - ranks.begin();
  const auto size = static_cast<int>(ranks.size());
  return sim::init_from(parent, static_cast<int>(own), size, ranks, first ? &id : nullptr, {ranks[0]}, made);
}
// The parent's ranks stay what they are; who is new says its own.
ncclResult_t ncclCommGrow(ncclComm_t comm, int size, const ncclUniqueId* id, int rank, ncclComm_t* made,
                          ncclConfig_t*) {
  if (!comm) return id ? sim::init_rank(made, size, *id, rank) : sim::refuse(ncclInvalidArgument, "there is no id");
  const std::shared_ptr<sim::Rank> parent = sim::rank_of(comm);
  if (!parent || !made) return sim::no_communicator();
  *made = nullptr;
  if (size <= parent->size)
    return sim::refuse(ncclInvalidArgument, "there are " + std::to_string(parent->size) + " ranks already");
  if (size > sim::kMaxRanks) return sim::refuse(ncclInvalidUsage, "a rehearsal has fewer devices than ranks");
  std::vector<int> ranks;
  for (int each = 0; each < parent->size; ++each) ranks.push_back(each);
  return sim::init_from(parent, parent->rank, size, ranks, id, ranks, made);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  return rank->revoked ? sim::refuse(ncclInvalidUsage, "the communicator was revoked") : ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return !comm || sim::close(comm, false) ? ncclSuccess : sim::no_communicator();
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return !comm || sim::close(comm, true) ? ncclSuccess : sim::no_communicator();
}
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  if (flags != NCCL_REVOKE_DEFAULT) return sim::refuse(ncclInvalidArgument, "flags of ncclCommRevoke have to be 0");
  sim::revoke(*rank);
  return ncclSuccess;
}

}  // extern "C"

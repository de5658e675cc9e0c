// The ranks of one process that communicate, and what they have asked for together.
#pragma once

#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace devtrace::simulate::nccl {

enum class OperationKind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll, kSend, kReceive };

struct Rank;

// What one rank asks for.
struct Request {
  OperationKind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int other = 0;  // the root, or the other end
  Rank* rank = nullptr;
  CUstream stream = nullptr;
};

// The same communicator's ranks.
struct Ranks {
  std::mutex mutex;
  std::condition_variable matched;
  int size = 1;
  std::list<Request*> waiting;  // in the order in which they were asked for
};

// What a handle of NCCL's stands for.
struct Rank {
  std::shared_ptr<Ranks> ranks;
  int rank = 0, device = 0;
  CUcontext context = nullptr;
  CUevent reached = nullptr;
};
inline Rank* rank_of(ncclComm_t handle) {
  return reinterpret_cast<Rank*>(handle);
}

// The ranks of a new communicator, one a device; null where CUDA refused.
std::vector<Rank*> make(const std::vector<int>& devices);
bool alive(const Rank* rank);
bool destroy(Rank* rank);

// Enqueues each as soon as all its ranks have asked for it, which other threads may have to do, and returns then.
ncclResult_t perform(std::vector<Request> requests);

}  // namespace devtrace::simulate::nccl

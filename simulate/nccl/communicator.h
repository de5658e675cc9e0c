// Communicators: what a handle of NCCL's stands for, and how what is asked of it becomes work of a stream.
#pragma once

#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simulate/nccl/exchange.h"

namespace devtrace::simulate::nccl {

struct Rank : Place {
  int device = 0;
  CUcontext context = nullptr;
  CUevent reached = nullptr;
  CUstream last = nullptr;    // that it gave work to
  std::vector<Scale> scales;  // of ncclRedOpCreatePreMulSum
  bool suspended = false;
  ~Rank();
};

// Makes a communicator's context the thread's.
class Current {
 public:
  explicit Current(CUcontext context) : set_(cuCtxPushCurrent(context) == CUDA_SUCCESS) {}
  ~Current() {
    CUcontext popped;
    if (set_) cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const bool set_;
};

// A handle that lives; null: none.
std::shared_ptr<Rank> rank_of(ncclComm_t handle);

// A rank that is not yet there. Null where CUDA refused.
std::shared_ptr<Rank> make(int device);
ncclComm_t handle_of(const std::shared_ptr<Rank>& rank);

// How a rank comes to its communicator, in steps, so that a thread can take each for all its ranks before the next
// waits.
class Joining {
 public:
  // By an id, or by what the ranks of a communicator say: those of a color are one, in the order of their keys.
  Joining(std::shared_ptr<Rank> rank, const ncclUniqueId& id) : rank_(std::move(rank)), id_(id) {}
  Joining(std::shared_ptr<Rank> rank, std::shared_ptr<Rank> parent, int color, int key)
      : rank_(std::move(rank)), parent_(std::move(parent)), color_(color), key_(key) {}
  // By an id that one of the parent's `ranks` has, all of which come. The others say null, and who it may be.
  Joining(std::shared_ptr<Rank> rank, std::shared_ptr<Rank> parent, std::vector<int> ranks, const ncclUniqueId* id,
          std::vector<int> from)
      : rank_(std::move(rank)),
        parent_(std::move(parent)),
        ranks_(std::move(ranks)),
        from_(std::move(from)),
        invites_(id) {
    if (id) id_ = *id;
  }

  ncclResult_t start();
  ncclResult_t enter();
  ncclResult_t meet();
  const std::string& why() const { return why_; }

 private:
  ncclResult_t refuse(ncclResult_t code, std::string why);
  ncclResult_t enter_region();
  ncclResult_t enter_with_color();
  ncclResult_t answered(std::string why);

  struct Said {
    int color, key, rank;
    ncclUniqueId id;
  };
  std::shared_ptr<Rank> rank_, parent_;
  ncclUniqueId id_ = {};
  int color_ = 0, key_ = 0;
  std::vector<int> ranks_, from_;
  bool invites_ = false;
  Exchange agreement_;
  Said own_ = {};
  std::vector<Said> said_;
  std::string why_;
};

// It is over: the others are told. `abort`: what it waits for is dropped.
bool close(ncclComm_t handle, bool abort);

// What one rank asks for.
struct Request {
  std::shared_ptr<Rank> rank;
  CUstream stream = nullptr;
  Exchange exchange;
  std::shared_ptr<const void> keeps = nullptr;  // what it needs until then
};
// Enqueues them as one piece of work, that waits in its stream for the other ranks.
ncclResult_t perform(std::vector<Request> requests);

}  // namespace devtrace::simulate::nccl

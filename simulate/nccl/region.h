// The memory that a communicator's ranks share, whichever processes they are in. It has no name in any folder: however
// they end, the last one takes it along.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/running_process.h"
#include "simulate/common/uncomputed_part.h"

namespace devtrace::simulate::nccl {

constexpr int kMaxRanks = 64;

enum class OperationKind : uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
  kPutSignal,  // a signal alone where it has no bytes
  kWaitSignal
};

// What a rank asks for, as far as the others have to ask for the same.
struct Call {
  OperationKind kind = OperationKind::kAllReduce;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int other = 0;  // the root, or the other end
  uint64_t count = 0;
};

// Bytes of a rank's.
struct Part {
  uint64_t offset = 0, bytes = 0;
  bool posted = false;
  bool left = false;  // --values small: nobody computes them, so that they are nowhere
  UncomputedPart uncomputed = {};
};

// A collective under way: the `number`th of its channel.
struct Collective {
  uint64_t number = 0;  // 0: free
  int channel = 0, posted = 0, taken = 0, first = 0;
  Call call;  // of the rank that was `first`
  bool complete = false;
  Part parts[kMaxRanks];
};

// The `number`th message from one rank to another that nobody has received yet.
struct Message {
  uint64_t number = 0;  // 0: free
  int from = 0, to = 0;
  Call call;
  Part part;
};

// To another communicator, until it is taken.
struct Invitation {
  bool open = false;
  ncclUniqueId id = {};
};

struct Member {
  RunningProcess process;
  bool here = false, revoked = false, left = false;
  char device[16] = {};  // UUID
  unsigned long long bus = 0;
  std::atomic<uint32_t> changed{0}, sleepers{0};
  uint64_t next[2] = {1, 1};  // collective, by channel
};

// Streams' collectives; and what is agreed upon by the hosts, which waits for no stream.
enum Channel { kOfStreams, kOfHosts };

struct Block {
  uint64_t offset = 0, size = 0;
};

// Everything here is zero in a new file.
struct Shared {
  uint64_t nonce;
  std::atomic<uint32_t> lock;  // the pid that has it
  std::atomic<bool> broken;    // somebody died who had it
  int size, arrived;
  bool wants_room;
  Member members[kMaxRanks];
  uint64_t sent[kMaxRanks][kMaxRanks], received[kMaxRanks][kMaxRanks];  // messages so far, from and to
  Collective collectives[64];
  Invitation invitations[kMaxRanks][kMaxRanks];  // of whom, by whom
  uint64_t signals[kMaxRanks][kMaxRanks];        // that nobody has waited for yet; for whom, by whom
  Message messages[2048];
  size_t block_count;
  Block blocks[64 * kMaxRanks + 2048];  // in use, by their offset
};

class Region {
 public:
  // A new one's file, for who comes by that id.
  static bool create(ncclUniqueId* id);
  // Null: who made it is gone, or it was never one of ours.
  static std::shared_ptr<Region> open(const ncclUniqueId& id);
  // Nobody will come by that id any more. Does something where it was made, once.
  static void close(const ncclUniqueId& id);

  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  Shared& shared() { return *shared_; }
  uint8_t* at(const Part& part);

  // Under the lock: room for that many bytes, false when there is none, and giving it back. What is left needs none.
  bool take(size_t bytes, bool left, Part* part);
  void give(const Part& part);

  // How often a rank was woken; sleeps until it is again, for `kGlance` at most.
  uint32_t changes(int rank) { return shared_->members[rank].changed.load(); }
  void sleep(int rank, uint32_t changes);
  void wake(int rank);
  void wake_all();

 private:
  explicit Region(Shared* shared) : shared_(shared) {}
  static std::shared_ptr<Region> map(int file);

  Shared* const shared_;
};

// Between threads and processes. Who dies with it leaves the region broken, not locked.
class RegionLock {
 public:
  explicit RegionLock(Region& region);
  ~RegionLock() { unlock(); }
  RegionLock(const RegionLock&) = delete;
  RegionLock& operator=(const RegionLock&) = delete;
  void unlock();

 private:
  Shared& shared_;
  bool held_ = true;
};

}  // namespace devtrace::simulate::nccl

// What the ranks of a job on this machine know of each other. The command that started them made this memory, which
// they share; a ticket in their environment says where it is. Written with atomics alone: nobody waits for anybody, and
// who is killed leaves nothing locked. Everything here is zero in a new one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/running_process.h"

namespace devtrace {

// A statement of the program's, as every process can read it. Never changes once it is `ready`.
struct RankPlace {
  std::atomic<bool> ready;
  bool project;
  int line;
  char file[272], function[96], source[160];
};

// The collectives of one communicator that a rank has asked for, the last of them.
struct RankCall {
  std::atomic<uint64_t> number;  // from 1; 0 while it is being written
  std::atomic<uint64_t> count, digest, time;
  std::atomic<uint32_t> kind, type, op, place;
  std::atomic<int32_t> root;
};

// One rank of one communicator.
struct RankMember {
  enum State : uint32_t { free, taken, ready, left };
  std::atomic<uint32_t> state;
  uint64_t communicator;
  int rank, size, local_rank, device;
  RunningProcess process;
  char uuid[48];    // of the device
  char torch[32];   // the version of PyTorch; empty: it does not say
  uint32_t chosen;  // the place that made it this thread's current one; 0: none is known
  bool by_default;  // nobody did
  bool by_call;     // the call that needs the communicator did, by its tensors or its device_id

  std::atomic<uint64_t> waiting;  // since when, for the others to come to the communicator; 0: they have
  std::atomic<uint32_t> place;    // and where

  static constexpr uint64_t kCalls = 128;
  std::atomic<uint64_t> calls;  // so far
  RankCall last[kCalls];
  std::atomic<uint64_t> stalled;      // the last call of which was told that ranks wait in it; of the first member
  std::atomic<uint64_t> told;         // the call that a finding speaks of
  std::atomic<bool> version_told;     // that it and one behind it in the table have different versions
  std::atomic<uint32_t> whereabouts;  // where the process was seen when others waited for it
  const RankCall& call(uint64_t number) const { return last[number % kCalls]; }
};

struct RankTable {
  static constexpr uint32_t kMembers = 512, kPlaces = 4096, kLogs = 256;
  uint64_t nonce;
  std::atomic<uint32_t> places, logs, used;  // handed out; of the members, how many ever were
  RankMember members[kMembers];
  RankPlace place[kPlaces];  // the first stands for none
  struct Log {
    std::atomic<bool> ready;
    bool said;  // findings are told on stderr, too
    char path[400];
  } log[kLogs];  // of processes that are ranks, and write pages
};

constexpr const char* kRankTableVariable = "DEVTRACE_RANKS";

// A new one, as long as this object is there.
class OfferedRankTable {
 public:
  OfferedRankTable();
  ~OfferedRankTable();
  OfferedRankTable(const OfferedRankTable&) = delete;
  OfferedRankTable& operator=(const OfferedRankTable&) = delete;

  // Null: the system has no memory to share.
  RankTable* table() const { return table_; }
  std::string ticket() const;  // what the variable says

 private:
  int file_ = -1;
  RankTable* table_ = nullptr;
};

// By a ticket; null: who offered it is gone, or it is none. Mapped for the life of the process. No malloc.
RankTable* open_rank_table(const char* ticket);

}  // namespace devtrace

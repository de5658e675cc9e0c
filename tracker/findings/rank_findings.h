// What ranks do that a finding is made of.
#pragma once

#include <vector>

#include "common/rank_table.h"
#include "tracker/interface/collective.h"

namespace devtrace::findings {

// Ranks of one communicator that came with one device, which NCCL refuses.
struct SharedDevice {
  const RankTable& table;
  const std::vector<const RankMember*>& ranks;
  const RankMember& own;  // the one that tells
  const char* function;
};
void report(const SharedDevice& shared);

// What a rank asks for, and where.
struct Part {
  const RankMember* rank = nullptr;
  Collective call = {};
  uint32_t place = 0;
};

// Ranks of one communicator that ask for different collectives, with the same number.
struct CollectiveMismatch {
  const RankTable& table;
  const std::vector<Part>& parts;  // of those that have come
  const RankMember& own;
  uint64_t number;
  const char* function;
};
void report(const CollectiveMismatch& mismatch);

// Ranks that wait in a collective for others that do not come.
struct CollectiveStalled {
  struct Missing {
    const RankMember* rank;
    bool gone, waits;
    Part elsewhere;  // where it waits
  };
  const RankTable& table;
  std::vector<Part> waiting;
  std::vector<Missing> missing;
  const RankMember& own;
  uint64_t number;
  bool is_certain;  // that one of these will never come
};
void report(const CollectiveStalled& stalled);

// Ranks that wait for others to come to a communicator.
struct RanksAbsent {
  const RankTable& table;
  const std::vector<RankMember*>& waiting;
  const RankMember& own;
};
void report(const RanksAbsent& absent);

}  // namespace devtrace::findings

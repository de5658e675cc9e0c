// The table that the job's ranks share (common/rank_table.h), as this process uses it.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "common/rank_table.h"
#include "tracker/interface/collective.h"
#include "tracker/interface/event_types.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::ranks {

// Its own where nobody offers one: then it knows nothing of other processes. Null where there is no memory.
RankTable* table();

// This process's place in it for a rank of a communicator. Null where it is full.
RankMember* enter(RankTable& table, const events::Rank& rank);
// All that were handed out so far.
std::span<RankMember> used_members(RankTable& table);
// Whether it is a rank of that communicator, as long as it lives.
inline bool is_of(const RankMember& member, uint64_t communicator) {
  return member.state.load(std::memory_order_acquire) == RankMember::ready && member.communicator == communicator;
}

// Did a finding speak of one of them?
template <class Members>
bool any_told(const Members& members) {
  return std::ranges::any_of(members, [](const RankMember* each) { return each->told.load() != 0; });
}

// The member of that rank; null: it has not come, or has gone.
RankMember* find(RankTable& table, uint64_t communicator, int rank);

// The call of that number, while it is not overwritten.
std::optional<Collective> call_of(const RankMember& member, uint64_t number);

// Where the program is, by a number in the table that is given out once for each statement. 0: not known.
uint32_t place_of(RankTable& table, stacks::StackId stack);

}  // namespace devtrace::ranks

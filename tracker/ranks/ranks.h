// The ranks of NCCL's communicators: what this process's have told the others, and what the others have told.
#pragma once

#include <optional>
#include <span>

#include "tracker/interface/collective.h"
#include "tracker/interface/event_types.h"

namespace devtrace::ranks {

void joins(const events::Rank& rank) noexcept;
void joined(const events::Rank& rank, const void* handle) noexcept;
void split(const void* parent, int color, events::Rank rank, const void* handle) noexcept;
void refused(std::span<const events::Rank> ranks, events::Twice twice) noexcept;
void left(const void* handle) noexcept;
void called(const char* function, const void* handle, const Collective& call) noexcept;

// Hot: of a communicator's handle. Nothing where it was made before devtrace came.
struct OwnRank {
  int rank, size;
  Device device;
};
std::optional<OwnRank> of(const void* handle) noexcept;

// A fork's child has none of its parent's ranks.
void forget_in_child();

}  // namespace devtrace::ranks

// A copy is looked at before it happens: do its two ends lie where the caller says?
#pragma once

#include <cstddef>

#include "tracker/interface/event_types.h"
#include "tracker/memory/copy_ends.h"

namespace devtrace::copy {
namespace detail {

using memory::CopyEnd;
using memory::Declared;
namespace ownership = memory::ownership;

// What the table of chunks can tell. An unowned chunk where a device is declared may be managed or pinned memory, or
// device memory that nobody saw: only a closer look tells it from the host's.
inline bool contradicts(const CopyEnd& end) {
  if (end.address == 0) return false;  // CUDA knows where it lies
  switch (end.declared) {
    case Declared::nothing:
      return false;
    case Declared::host:
      return end.likely.known();
    case Declared::any_device:
      return !end.likely.known();
    case Declared::this_device:
      return end.likely != end.declared_device;
  }
  return false;
}

// Of a pitched copy `bytes` is less than the stretch from its first to its last byte: of such a copy less is seen, and
// nothing that is not there.
inline bool may_run_over(const CopyEnd& end, size_t bytes) {
  const uintptr_t last = end.address + bytes - 1;
  if (((end.address ^ last) >> ownership::kChunkBits) == 0) return false;
  const Device there = ownership::likely(last);
  return end.likely.known() && there.known() && there != end.likely;
}

}  // namespace detail

// Looks the two ends up exactly, and reports what contradicts, before it returns.
void slow_path(const events::Copy& copy, const memory::CopyEnds& ends) noexcept;

// Hot: a load for each end that leaves its chunk, no lock.
inline void check(const events::Copy& copy, const memory::CopyEnds& ends) {
  using namespace detail;
  if (contradicts(ends.to) || contradicts(ends.from) || may_run_over(ends.to, copy.bytes) ||
      may_run_over(ends.from, copy.bytes)) [[unlikely]]
    slow_path(copy, ends);
}

}  // namespace devtrace::copy

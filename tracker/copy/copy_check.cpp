#include "tracker/copy/copy_check.h"

#include "tracker/base/thread_state.h"
#include "tracker/findings/findings.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/provenance.h"

namespace devtrace::copy {
namespace {

using findings::MisplacedCopy;
using memory::CopyEnd;
using memory::Declared;
using memory::ownership::Memory;

// The device into whose memory the copy goes on where its own ends. The mappings of one stretch of virtual memory lie
// one after the other and are the same device's; there it is no overrun.
Device runs_into(const memory::ownership::Extent& first, uintptr_t address, size_t bytes) {
  const uintptr_t end = address + bytes;
  for (auto extent = std::optional(first); extent && extent->memory == Memory::device;) {
    if (extent->device != first.device) return extent->device;
    const uintptr_t next = extent->address + extent->bytes;
    if (next >= end) break;
    extent = memory::ownership::extent_at(next);
  }
  return {};
}

// Only what is known to be wrong is: memory that nobody saw being allocated contradicts nothing, and managed and pinned
// memory is every device's and the host's at once.
MisplacedCopy::End classified(const CopyEnd& declared, size_t bytes) {
  MisplacedCopy::End end;
  end.end = declared;
  const uintptr_t address = declared.address;
  if (address == 0) return end;
  if (const auto extent = memory::ownership::extent_at(address)) {
    if (extent->memory != Memory::device) return end;
    end.owner = extent->device;
    end.runs_into = runs_into(*extent, address, bytes);
  } else if (const auto block = memory::provenance::block_at(address);
             block && block->allocated.device == Device::cpu()) {
    end.owner = Device::cpu();
  }
  if (!end.owner.known()) return end;
  end.wrong = end.runs_into.known() || (declared.declared == Declared::host && end.owner.is_cuda()) ||
              (declared.declared == Declared::any_device && !end.owner.is_cuda()) ||
              (declared.declared == Declared::this_device && end.owner != declared.declared_device);
  return end;
}

}  // namespace

void slow_path(const events::Copy& copy, const memory::CopyEnds& ends) noexcept {
  const auto misplaced_copy = [&] {
    const ReentrancyGuard inside;
    return MisplacedCopy{copy, classified(ends.to, copy.bytes), classified(ends.from, copy.bytes)};
  };
  const MisplacedCopy misplaced = misplaced_copy();
  if (misplaced.to.wrong || misplaced.from.wrong) findings::report(misplaced);
}

}  // namespace devtrace::copy

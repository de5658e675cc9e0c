#include "tracker/copies.h"

#include "tracker/current_thread.h"
#include "tracker/findings.h"
#include "tracker/ownership.h"
#include "tracker/provenance.h"

namespace devtrace::copies {
namespace {

using ownership::Memory;

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// What the table of chunks can tell. An unowned chunk where a device is stated may be managed or pinned memory, or
// device memory that nobody saw: only a closer look tells it from the host's.
bool contradicts(const StatedEnd& stated, const void* address, Device likely) {
  if (!address) return false;  // an array, a variable of the program: CUDA knows where it lies
  switch (stated.what) {
    case Stated::nothing:
      return false;
    case Stated::host:
      return likely.known();
    case Stated::a_device:
      return !likely.known();
    case Stated::this_device:
      return likely != stated.device;
  }
  return false;
}

// Of a pitched copy `bytes` is less than the stretch from its first to its last byte: of such a copy less is seen, and
// nothing that is not there.
bool may_run_over(uintptr_t address, size_t bytes, Device likely) {
  const uintptr_t last = address + bytes - 1;
  if (((address ^ last) >> ownership::kChunkBits) == 0) return false;
  const Device end = ownership::likely(last);
  return likely.known() && end.known() && end != likely;
}

// The device into whose memory the copy goes on where its own ends. The mappings of one stretch of virtual memory lie
// one after the other and are the same device's; there it is no overrun.
Device runs_into(const ownership::Extent& first, uintptr_t address, size_t bytes) {
  const uintptr_t end = address + bytes;
  for (auto extent = std::optional(first); extent && extent->memory == Memory::device;) {
    if (extent->device != first.device) return extent->device;
    const uintptr_t next = extent->address + extent->bytes;
    if (next >= end) break;
    extent = ownership::find(next);
  }
  return {};
}

// Only what is known to be wrong is: memory that nobody saw being allocated contradicts nothing, and managed and pinned
// memory is every device's and the host's at once.
MisplacedCopy::End judged(const StatedEnd& stated, uintptr_t address, size_t bytes) {
  MisplacedCopy::End end;
  end.address = address;
  if (address == 0) return end;
  if (const auto extent = ownership::find(address)) {
    if (extent->memory != Memory::device) return end;
    end.owner = extent->device;
    end.runs_into = runs_into(*extent, address, bytes);
  } else if (const auto block = provenance::find(address); block && block->allocated.device == Device::cpu()) {
    end.owner = Device::cpu();
  }
  if (!end.owner.known()) return end;
  end.wrong = end.runs_into.known() || (stated.what == Stated::host && end.owner.is_cuda()) ||
              (stated.what == Stated::a_device && !end.owner.is_cuda()) ||
              (stated.what == Stated::this_device && end.owner != stated.device);
  return end;
}

[[gnu::noinline]] void look_closer(const events::Copy& copy) noexcept {
  const current_thread::Inside inside;
  const MisplacedCopy misplaced{copy, judged(stated_destination(copy), number(copy.to), copy.bytes),
                                judged(stated_source(copy), number(copy.from), copy.bytes)};
  if (!misplaced.to.wrong && !misplaced.from.wrong) return;
  try {
    findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost, the copy goes on
  }
}

}  // namespace

void check(const events::Copy& copy, const Owners& likely) {
  if (contradicts(stated_destination(copy), copy.to, likely.to) ||
      contradicts(stated_source(copy), copy.from, likely.from) ||
      may_run_over(number(copy.to), copy.bytes, likely.to) || may_run_over(number(copy.from), copy.bytes, likely.from))
    look_closer(copy);
}

}  // namespace devtrace::copies

// Races in a block's shared memory: two threads access the same bytes, one of them writes, and nothing orders them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "simulate/kernels/code.h"
#include "simulate/kernels/lanes.h"

namespace devtrace::simulate::kernels {

struct Hazard {
  uint32_t lane = 0, other = 0;  // the thread that came second, and the one before it
  bool writes = false, other_wrote = false;
  uint64_t offset = 0;  // in shared memory
  size_t size = 0;
  const Code* other_code = nullptr;
  uint32_t other_step = 0;  // of that code
};

// Ordered are accesses of one thread, and those before and behind a barrier, a fence or an operation on an mbarrier.
// Within a warp, so are those before and behind what synchronises it. Strong and atomic accesses do not race with each
// other. A barrier of some of the threads counts as one of all, so that nothing is reported that may be right.
class SharedHazards {
 public:
  SharedHazards(const uint8_t* shared, size_t bytes) : bytes_(bytes), shared_(shared) {}
  void barrier() { ordered_ = ++now_; }
  void warps(const Lanes& lanes);
  // Which step the accesses that follow are of.
  void at(const Code* code, uint32_t step);
  // A lane is about to read or write bytes that lie in shared memory.
  void access(uint32_t lane, uint64_t offset, size_t size, bool writes, bool strong);
  // Whether a step has accessed what it may not; asked when it is done. One that writes what was there already does no
  // harm, and is none.
  bool found(Hazard* hazard);

 private:
  struct Access {
    uint32_t when = 0, site = 0;
    uint16_t lane = 0;
    bool strong = false;
  };
  // The last one that wrote, the last one that read, and one of another thread before that: of another warp, if one
  // was.
  struct Byte {
    Access wrote, read, read_before;
  };
  struct Site {
    const Code* code;
    uint32_t step;
  };
  struct Candidate {
    Hazard hazard;
    uint8_t before[16];
  };
  bool races(const Access& before, uint32_t lane, bool strong) const;
  const Access* raced(const Byte& byte, uint32_t lane, bool writes, bool strong) const;

  std::vector<Byte> bytes_;
  std::vector<Site> sites_;
  std::unordered_map<const Step*, uint32_t> site_of_;
  std::vector<Candidate> candidates_;  // of this step
  const uint8_t* shared_;
  uint32_t now_ = 1, ordered_ = 1, site_ = 0;
  uint32_t warp_ordered_[32] = {};
};

}  // namespace devtrace::simulate::kernels

// What kernels launch themselves, by the device's runtime (CUDA Programming Guide, "CUDA Dynamic Parallelism").
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

struct Child {
  enum class Does : uint8_t { launch, copy, set };
  Does does = Does::launch;
  bool at_the_end = false;  // when the grid and all that it has launched are done
  uint32_t function = 0;    // of Program::codes
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  size_t dynamic_shared = 0;
  std::vector<uint8_t> parameters;
  uint64_t to = 0, from = 0;  // of a copy
  size_t bytes = 0;
  uint8_t value = 0;  // that is set
};

// Those of a grid. They run when it has ended: nothing in it may wait for them.
class Children {
 public:
  // Memory for a launch's parameters, which the kernel writes; 0: there are too many, or none is left.
  uint64_t buffer(Memory& memory, const Child& child, size_t bytes);
  // False: it is no buffer that somebody was given, or was launched before.
  bool launch(Memory& memory, uint64_t buffer, bool at_the_end);
  // The same where the buffer was given out before anybody knew for which kernel.
  bool launch(Memory& memory, uint64_t buffer, Child child);
  void add(Child child);
  // All of them, the last one first: to be taken from behind.
  std::vector<Child> take();
  // Of buffers that were never launched.
  void release(Memory& memory);

 private:
  std::mutex mutex_;
  std::map<uint64_t, Child> buffers_;
  std::vector<Child> launched_;
};

}  // namespace devtrace::simulate::kernels

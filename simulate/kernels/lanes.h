// Sets of a block's threads ("lanes"), as runs of neighbours: what one instruction is done for in loops that vectorise.
#pragma once

#include <cstdint>
#include <vector>

namespace devtrace::simulate::kernels {

struct Run {
  uint32_t begin = 0, end = 0;
};

class Lanes {
 public:
  Lanes() = default;
  explicit Lanes(uint32_t count) {
    if (count) runs_.push_back({0, count});
  }
  bool empty() const { return runs_.empty(); }
  uint32_t count() const;
  const std::vector<Run>& runs() const { return runs_; }
  const Run* begin() const { return runs_.data(); }
  const Run* end() const { return runs_.data() + runs_.size(); }
  void clear() { runs_.clear(); }
  // Lanes in ascending order.
  void add(uint32_t lane) {
    if (!runs_.empty() && runs_.back().end == lane)
      ++runs_.back().end;
    else
      runs_.push_back({lane, lane + 1});
  }
  void unite(const Lanes& other);
  // Those whose byte in `predicate` is not `negated` go to `yes`, the others to `no`; `no` may be null.
  void split(const uint8_t* predicate, bool negated, Lanes* yes, Lanes* no) const;
  // As bits of the warp with that number.
  uint32_t in_warp(uint32_t warp) const;

 private:
  void add_run(Run run);
  std::vector<Run> runs_;
};

}  // namespace devtrace::simulate::kernels

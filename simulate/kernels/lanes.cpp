#include "simulate/kernels/lanes.h"

#include <algorithm>
#include <cstring>

namespace devtrace::simulate::kernels {

uint32_t Lanes::count() const {
  uint32_t n = 0;
  for (const Run& run : runs_) n += run.end - run.begin;
  return n;
}

void Lanes::add_run(Run run) {
  if (run.begin == run.end) return;
  if (!runs_.empty() && runs_.back().end >= run.begin)
    runs_.back().end = std::max(runs_.back().end, run.end);
  else
    runs_.push_back(run);
}

void Lanes::unite(const Lanes& other) {
  std::vector<Run> mine;
  mine.swap(runs_);
  auto a = mine.begin();
  auto b = other.runs_.begin();
  while (a != mine.end() || b != other.runs_.end()) {
    const bool first = b == other.runs_.end() || (a != mine.end() && a->begin < b->begin);
    add_run(first ? *a++ : *b++);
  }
}

void Lanes::split(const uint8_t* predicate, bool negated, Lanes* yes, Lanes* no) const {
  yes->clear();
  if (no) no->clear();
  constexpr uint64_t kOnes = 0x0101010101010101;
  for (const Run& run : runs_)
    for (uint32_t at = run.begin; at < run.end;) {
      const bool is = (predicate[at] != 0) != negated;
      const uint64_t same = predicate[at] ? kOnes : 0;
      uint32_t to = at + 1;
      while (to < run.end) {
        uint64_t eight = 0;
        if (to + 8 <= run.end && (std::memcpy(&eight, predicate + to, 8), eight == same))
          to += 8;
        else if ((predicate[to] != 0) == (predicate[at] != 0))
          ++to;
        else
          break;
      }
      if (is)
        yes->add_run({at, to});
      else if (no)
        no->add_run({at, to});
      at = to;
    }
}

uint32_t Lanes::in_warp(uint32_t warp) const {
  const uint32_t first = warp * 32;
  uint32_t bits = 0;
  for (const Run& run : runs_) {
    if (run.end <= first) continue;
    if (run.begin >= first + 32) break;
    const uint32_t from = std::max(run.begin, first) - first, to = std::min(run.end, first + 32) - first;
    bits |= static_cast<uint32_t>(((uint64_t{1} << to) - 1) & ~((uint64_t{1} << from) - 1));
  }
  return bits;
}

}  // namespace devtrace::simulate::kernels

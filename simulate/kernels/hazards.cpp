#include "simulate/kernels/hazards.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace devtrace::simulate::kernels {

void SharedHazards::warps(const Lanes& lanes) {
  ++now_;
  for (const Run run : lanes)
    for (uint32_t warp = run.begin / 32; warp * 32 < run.end && warp < std::size(warp_ordered_); ++warp)
      warp_ordered_[warp] = now_;
}

void SharedHazards::at(const Code* code, uint32_t step) {
  const auto [known, added] = site_of_.try_emplace(&code->steps[step], static_cast<uint32_t>(sites_.size()));
  if (added) sites_.push_back({code, step});
  site_ = known->second;
}

// `when` is 0 where nobody was.
bool SharedHazards::races(const Access& before, uint32_t lane, bool strong) const {
  if (before.when < ordered_ || before.lane == lane || (strong && before.strong)) return false;
  return before.lane / 32 != lane / 32 || before.when >= warp_ordered_[lane / 32];
}

const SharedHazards::Access* SharedHazards::raced(const Byte& byte, uint32_t lane, bool writes, bool strong) const {
  if (races(byte.wrote, lane, strong)) return &byte.wrote;
  if (!writes) return nullptr;
  if (races(byte.read, lane, strong)) return &byte.read;
  return races(byte.read_before, lane, strong) ? &byte.read_before : nullptr;
}

void SharedHazards::access(uint32_t lane, uint64_t offset, size_t size, bool writes, bool strong) {
  for (uint64_t i = offset; i < offset + size; ++i) {
    Byte& byte = bytes_[i];
    const Access* const other = raced(byte, lane, writes, strong);
    const bool known =
        !candidates_.empty() && candidates_.back().hazard.lane == lane && candidates_.back().hazard.offset == offset;
    if (other && !known) {
      Candidate candidate{};
      candidate.hazard = {lane,
                          other->lane,
                          writes,
                          other == &byte.wrote,
                          offset,
                          size,
                          sites_[other->site].code,
                          sites_[other->site].step};
      std::memcpy(candidate.before, shared_ + offset, std::min(size, sizeof candidate.before));
      candidates_.push_back(candidate);
    }
    const Access now{now_, site_, static_cast<uint16_t>(lane), strong};
    if (writes) {
      // A weak one stays, where the same thread then writes with a strong one: it races with others' strong ones.
      const bool stays = strong && !byte.wrote.strong && byte.wrote.lane == lane && byte.wrote.when >= ordered_;
      if (!stays) byte.wrote = now;
      continue;
    }
    if (byte.read.lane != lane && (byte.read.lane / 32 != lane / 32 || byte.read_before.when < ordered_))
      byte.read_before = byte.read;
    byte.read = now;
  }
}

bool SharedHazards::found(Hazard* hazard) {
  for (const Candidate& one : candidates_) {
    const Hazard& h = one.hazard;
    if (h.writes && !std::memcmp(one.before, shared_ + h.offset, std::min(h.size, sizeof one.before))) continue;
    *hazard = h;
    candidates_.clear();
    return true;
  }
  candidates_.clear();
  return false;
}

}  // namespace devtrace::simulate::kernels

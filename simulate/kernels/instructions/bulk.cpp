// cp.async.bulk and cp.reduce.async.bulk: many bytes at once, between shared and global memory or two blocks of a
// cluster. Done at once; where a barrier counts the bytes, they have come by then.
#include "simulate/kernels/instructions/bulk.h"

#include <cstring>
#include <string_view>

#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/mbarrier.h"
#include "simulate/kernels/instructions/reduction.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr size_t kUnit = 16;  // bytes: addresses and sizes are multiples

// In Step::mode.
enum : uint8_t { kToShared = 1, kFromShared = 2, kCounted = 4, kToSeveral = 8 };

void add_immediate(Machine& m, const Step& s) {
  map1<uint64_t, uint64_t>(m, s, [&](uint64_t a) { return a + static_cast<uint64_t>(s.immediate); });
}

uint8_t* unit(Machine& m, uint32_t lane, uint64_t address, bool shared, bool writes, Extent* cache) {
  if (shared) return reach_shared(m, lane, address, kUnit, kUnit, writes);
  return reach(m, lane, address, kUnit, kUnit, writes, cache);
}

// d: to; a: from; b: bytes; c: in Step::more the barrier, then the ranks as bits; mode2, immediate: a reduction, of a
// type.
void copy(Machine& m, const Step& s) {
  Extent* const caches = m.cache + s.extra;
  const auto type = static_cast<ptx::Type>(s.immediate);
  const auto one = [&](uint32_t lane, uint64_t to, uint64_t from, uint32_t bytes, uint64_t barrier) {
    if (bytes % kUnit) return m.fail(FaultKind::misaligned, lane), false;
    for (uint32_t done = 0; done < bytes; done += kUnit) {
      const uint8_t* const here = unit(m, lane, from + done, s.mode & kFromShared, false, caches);
      uint8_t* const there = here ? unit(m, lane, to + done, s.mode & kToShared, true, caches + 1) : nullptr;
      if (!there) return false;
      if (!s.mode2) {
        std::memcpy(there, here, kUnit);
        continue;
      }
      for (size_t i = 0; i < kUnit; i += ptx::bytes_of(type))
        reduction(static_cast<Reduction>(s.mode2), type)(there + i, here + i);
    }
    return !(s.mode & kCounted) || arrive_with_bytes(m, lane, barrier, bytes);
  };
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      const uint64_t to = m.at<uint64_t>(s.d)[l], from = m.at<uint64_t>(s.a)[l];
      const uint32_t bytes = m.at<uint32_t>(s.b)[l];
      const uint64_t barrier = s.mode & kCounted ? m.at<uint64_t>((*m.more)[s.c])[l] : 0;
      if (!(s.mode & kToSeveral)) {
        if (!one(l, to, from, bytes, barrier)) return;
        continue;
      }
      const uint32_t ranks = m.at<uint16_t>((*m.more)[s.c + 1])[l];
      for (uint32_t rank = 0; rank < 16; ++rank)
        if (ranks >> rank & 1 && !one(l, in_block(to, rank), from, bytes, in_block(barrier, rank))) return;
    }
}

Space space_of(std::string_view modifier) {
  return ptx::find_space(modifier);
}

}  // namespace

Slot whole_address(Decoder& d, const Decoder::Address& at) {
  Slot slot = at.slot;
  if (at.wide == 4) {
    slot = d.temporary(8);
    d.convert(slot, 8, at.slot, 4, false);
  }
  if (!at.added) return slot;
  const Slot sum = d.temporary(8);
  d.emit(add_immediate, sum, slot).immediate = at.added;
  return sum;
}

bool decode_bulk(Decoder& d) {
  if (!d.has(".async") || !d.has(".bulk")) return false;
  if (d.has(".commit_group") || d.has(".wait_group") || d.has(".prefetch")) return true;
  if (d.has(".tensor")) return decode_tensor(d);
  if (d.has(".cp_mask") || d.operand_count() < 3) return false;
  // Two spaces, that of the destination first.
  Space spaces[2] = {};
  size_t found = 0;
  for (const std::string_view modifier : d.instruction().modifiers)
    if (space_of(modifier) != Space::none && found < 2) spaces[found++] = space_of(modifier);
  if (found < 2) return false;
  const Slot to = whole_address(d, d.address(d.operand(0), spaces[0])),
             from = whole_address(d, d.address(d.operand(1), spaces[1]));
  const Slot bytes = d.source(2, Type::b32);
  uint8_t mode = static_cast<uint8_t>((spaces[0] == Space::shared ? kToShared : 0) |
                                      (spaces[1] == Space::shared ? kFromShared : 0));
  std::vector<Slot> more;
  if (d.has(".mbarrier::complete_tx::bytes")) {
    if (d.operand_count() < 4) return false;
    mode |= kCounted;
    more.push_back(whole_address(d, d.address(d.operand(3), Space::shared)));
    if (d.has(".multicast::cluster")) {
      if (d.operand_count() < 5) return false;
      mode |= kToSeveral;
      more.push_back(d.source(4, Type::b16));
    }
  }
  const bool reduces = d.has(".reduce");
  const Reduction which = reduces ? reduction_named(d) : Reduction::none;
  if (reduces && !reduction(which, d.type())) return false;
  const Slot words = d.more(more);
  Step& step = d.emit(copy, to, from, bytes, words);
  step.mode2 = static_cast<uint8_t>(which);
  step.immediate = static_cast<int64_t>(d.type());
  step.mode = mode;
  step.extra = d.cache();
  d.cache();
  return true;
}

}  // namespace devtrace::simulate::kernels

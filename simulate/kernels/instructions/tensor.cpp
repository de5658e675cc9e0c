// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of tensors that a tensor map describes, between global
// and shared memory. Done at once, like all bulk copies.
#include <cstring>
#include <string>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/bulk.h"
#include "simulate/kernels/instructions/mbarrier.h"
#include "simulate/kernels/instructions/reach.h"
#include "simulate/kernels/instructions/reduction.h"
#include "simulate/kernels/tensor_map.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr uint32_t kUnit = 16, kAlignment = 128;  // bytes

// In Step::mode.
enum : uint8_t { kStore = 1, kCounted = 2, kToSeveral = 4 };

bool read_map(Machine& m, uint32_t lane, uint64_t address, Extent* cache, TensorMap* map) {
  static_assert(sizeof *map % 8 == 0);
  for (size_t done = 0; done < sizeof *map; done += 8) {
    const uint8_t* const at = reach(m, lane, address + done, 8, 8, false, cache);
    if (!at) return false;
    std::memcpy(reinterpret_cast<uint8_t*>(map) + done, at, 8);
  }
  return true;
}

// One row of a box: its first element's place in both memories.
struct Row {
  uint64_t shared;  // where it begins, before units are exchanged
  int64_t global;   // of the dimension's first element
  int64_t begin;    // index in the first dimension
  bool inside;      // in all the others
};

class Box {
 public:
  Box(Machine& m, const Step& s, uint32_t lane, const TensorMap& map, Extent* cache)
      : m_(m), s_(s), lane_(lane), map_(map), cache_(cache), bytes_(static_cast<uint32_t>(ptx::bytes_of(map.type))) {
    for (uint32_t i = 0; i < map.rank; ++i)
      counts_[i] = i ? (map.box[i] + map.steps[i] - 1u) / map.steps[i] : map.box[0];
  }

  uint32_t bytes() const {
    uint32_t all = bytes_;
    for (const uint32_t count : counts_) all *= count;
    return all;
  }

  // False: it is a fault.
  bool move(uint64_t shared, const int32_t* at) const {
    uint32_t rows = 1;
    for (uint32_t i = 1; i < kMostDimensions; ++i) rows *= counts_[i];
    for (uint32_t number = 0; number < rows; ++number) {
      Row row = {shared + uint64_t{number} * counts_[0] * bytes_, static_cast<int64_t>(map_.address), at[0], true};
      for (uint32_t i = 1, rest = number; i < map_.rank; rest /= counts_[i], ++i) {
        const int64_t index = int64_t{at[i]} + int64_t{rest % counts_[i]} * map_.steps[i];
        row.global += index * static_cast<int64_t>(map_.strides[i - 1]);
        row.inside = row.inside && index >= 0 && index <= map_.last[i];
      }
      if (!move(row)) return false;
    }
    return true;
  }

 private:
  bool move(const Row& row) const {
    const bool whole = row.inside && row.begin >= 0 && row.begin + counts_[0] <= int64_t{map_.last[0]} + 1;
    const bool in_units = whole && (row.global + row.begin * bytes_) % kUnit == 0 && s_.mode2 == 0;
    const uint32_t each = in_units ? kUnit : bytes_;
    for (uint32_t done = 0; done < counts_[0] * bytes_; done += each) {
      const int64_t index = row.begin + done / bytes_;
      const bool inside = row.inside && index >= 0 && index <= map_.last[0];
      if (!inside && s_.mode & kStore) continue;
      const uint64_t place = swizzled(row.shared + done);
      uint8_t* const here = reach_shared(m_, lane_, place, each, each, !(s_.mode & kStore));
      if (!here) return false;
      if (!inside) {
        fill(here);
        continue;
      }
      const auto address = static_cast<uint64_t>(row.global + index * bytes_);
      uint8_t* const there = reach(m_, lane_, address, each, each, s_.mode & kStore, cache_);
      if (!there) return false;
      if (!(s_.mode & kStore))
        std::memcpy(here, there, each);
      else if (s_.mode2)
        reduction(static_cast<Reduction>(s_.mode2), map_.type)(there, here);
      else
        std::memcpy(there, here, each);
    }
    return true;
  }

  void fill(uint8_t* to) const { std::memset(to, map_.fill_with_nan ? 0xff : 0, bytes_); }
  // Of eight rows of 128 bytes each exchanges its units in another way; four or two rows in narrower patterns.
  uint64_t swizzled(uint64_t address) const {
    return map_.swizzle ? address ^ (address / 128 & (map_.swizzle / kUnit - 1)) * kUnit : address;
  }

  Machine& m_;
  const Step& s_;
  uint32_t lane_;
  const TensorMap& map_;
  Extent* cache_;
  uint32_t bytes_, counts_[kMostDimensions] = {1, 1, 1, 1, 1};
};

// a: the map's address; d: the address in shared memory; c: in Step::more the barrier, the ranks as bits, then the
// indices. extra: what is said of a map that is not done; immediate: of Machine::cache.
void move_box(Machine& m, const Step& s) {
  const Slot* const more = m.more->data() + s.c;
  Extent* const caches = m.cache + s.immediate;
  const auto one = [&](uint32_t l) {
    TensorMap map;
    if (!read_map(m, l, m.at<uint64_t>(s.a)[l], caches, &map)) return false;
    const uint64_t shared = m.at<uint64_t>(s.d)[l];
    const bool reduces = s.mode2 && !reduction(static_cast<Reduction>(s.mode2), map.type);
    if (map.magic != kTensorMap || map.rank != s.b || reduces) {
      m.fault.size = s.extra;
      return m.fail(FaultKind::not_computed, l), false;
    }
    if (!reach_shared(m, l, shared, kUnit, kAlignment, !(s.mode & kStore))) return false;
    int32_t at[kMostDimensions] = {};
    for (uint32_t i = 0; i < map.rank; ++i) at[i] = m.at<int32_t>(more[2 + i])[l];
    const Box box(m, s, l, map, caches + 1);
    const auto to = [&](uint64_t address, uint64_t barrier) {
      return box.move(address, at) && (!(s.mode & kCounted) || arrive_with_bytes(m, l, barrier, box.bytes()));
    };
    const uint64_t barrier = s.mode & kCounted ? m.at<uint64_t>(more[0])[l] : 0;
    if (!(s.mode & kToSeveral)) return to(shared, barrier);
    const uint32_t ranks = m.at<uint16_t>(more[1])[l];
    for (uint32_t rank = 0; rank < 16; ++rank)
      if (ranks >> rank & 1 && !to(in_block(shared, rank), in_block(barrier, rank))) return false;
    return true;
  };
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l)
      if (!one(l)) return;
}

uint32_t rank_of(const Decoder& d) {
  for (uint32_t rank = 1; rank <= kMostDimensions; ++rank)
    if (d.has(std::string{'.', static_cast<char>('0' + rank), 'd'})) return rank;
  return 0;
}

}  // namespace

bool decode_tensor(Decoder& d) {
  const uint32_t rank = rank_of(d);
  // Other modes gather rows, or parts of images for convolutions.
  for (const std::string_view modifier : d.instruction().modifiers)
    if (modifier.starts_with(".im2col") || modifier.starts_with(".tile::")) return false;
  if (!rank || d.operand_count() < 2) return false;
  const bool load = d.has(".mbarrier::complete_tx::bytes");
  const Operand& tensor = d.operand(load ? 1 : 0);
  if (tensor.kind != Operand::Kind::address || tensor.parts.size() != 2) return false;
  const std::vector<Operand> indices = d.parts(tensor.parts[1]);
  if (indices.size() != rank) return false;
  const Slot map = whole_address(d, d.address(tensor, Space::none));
  const Slot shared = whole_address(d, d.address(d.operand(load ? 0 : 1), Space::shared));
  uint8_t mode = load ? kCounted : kStore;
  std::vector<Slot> more(2, kNoSlot);
  if (load) {
    if (d.operand_count() < 3) return false;
    more[0] = whole_address(d, d.address(d.operand(2), Space::shared));
    if (d.has(".multicast::cluster")) {
      if (d.operand_count() < 4) return false;
      mode |= kToSeveral;
      more[1] = d.source(3, Type::b16);
    }
  }
  for (const Operand& index : indices) more.push_back(d.source(index, Type::s32));
  const Slot words = d.more(more);
  d.code().refusals.push_back("a tensor map of this kind");
  Step& step = d.emit(move_box, shared, map, rank, words);
  step.mode = mode;
  step.mode2 = static_cast<uint8_t>(reduction_named(d));
  step.extra = static_cast<uint32_t>(d.code().refusals.size()) - 1;
  step.immediate = d.cache();
  d.cache();
  return true;
}

}  // namespace devtrace::simulate::kernels

// Addresses in the shared memory of a cluster's blocks: mapa, getctarank.
#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr uint64_t kInBlock = (uint64_t{1} << kRankShift) - 1;

// Of a generic address; the own one where it is in no shared memory.
uint32_t rank_of(const Machine& m, uint64_t address) {
  for (uint32_t i = 0; i < m.cluster.size(); ++i)
    if (address - reinterpret_cast<uint64_t>(m.cluster[i]->shared) < m.cluster[i]->shared_bytes) return i;
  return m.rank;
}

// The place of an address in another block. mode: it is one of shared memory.
template <class T>
void map_address(Machine& m, const Step& s) {
  map2<T, T, uint32_t>(m, s, [&](T a, uint32_t rank) {
    if (s.mode) return static_cast<T>((uint64_t{a} & kInBlock) | (uint64_t{rank} + 1) << kRankShift);
    const Machine& from = *m.cluster[rank_of(m, a)];
    const uint64_t in_block = uint64_t{a} - reinterpret_cast<uint64_t>(from.shared);
    return static_cast<T>(rank < m.cluster.size() ? reinterpret_cast<uint64_t>(m.cluster[rank]->shared) + in_block : 0);
  });
}

template <class T>
void get_rank(Machine& m, const Step& s) {
  map1<uint32_t, T>(m, s, [&](T a) {
    if (!s.mode) return rank_of(m, a);
    return uint64_t{a} >> kRankShift ? static_cast<uint32_t>((uint64_t{a} >> kRankShift) - 1) : m.rank;
  });
}

}  // namespace

bool decode_cluster(Decoder& d) {
  const bool shared = d.space() == Space::shared, wide = ptx::bytes_of(d.type()) == 8;
  const Type type = wide ? Type::b64 : Type::b32;
  if (!wide && (ptx::bytes_of(d.type()) != 4 || !shared)) return false;
  const Slot address = d.source(1, type);
  Step* step = nullptr;
  if (d.instruction().opcode == "mapa") {
    const Slot rank = d.source(2, Type::b32);
    step = &d.emit(wide ? &map_address<uint64_t> : &map_address<uint32_t>, d.destination(0, type), address, rank);
  } else {
    step = &d.emit(wide ? &get_rank<uint64_t> : &get_rank<uint32_t>, d.destination(0, Type::b32), address);
  }
  step->mode = shared;
  return true;
}

}  // namespace devtrace::simulate::kernels

// mbarrier: barriers that lie in shared memory and count arrivals and bytes; cp.async's arrival at one.
#include "simulate/kernels/instructions/mbarrier.h"

#include <cstring>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/hazards.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

// The 64 bits are the implementation's own: PTX only hands them on.
struct Barrier {
  uint64_t phase : 1, expected : 20, pending : 20, bytes : 23;

  void complete() {
    if (pending || bytes) return;
    phase ^= 1;
    pending = expected;
  }
};
static_assert(sizeof(Barrier) == 8);

constexpr uint32_t kTicksOfWaiting = 256;  // for a phase that another block may have to complete

enum class Does : uint8_t { init, nothing, expect, finish, arrive, drop, expect_and_arrive, track, test, parity };

// mode: what; a: the address; b: a count, bytes, or a phase; d: the state before, or a predicate.
template <class A, bool kShared>
void barrier(Machine& m, const Step& s) {
  const A* const address = m.at<A>(s.a);
  const auto does = static_cast<Does>(s.mode);
  if (m.hazards) m.hazards->barrier();
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      uint8_t* const at = access<A, kShared>(m, s, l, address[l], 8, 8, does != Does::test && does != Does::parity);
      if (!at) return;
      Barrier b;
      std::memcpy(&b, at, sizeof b);
      const Barrier before = b;
      const uint32_t number = s.b == kNoSlot ? 1 : m.at<uint32_t>(s.b)[l];
      switch (does) {
        case Does::init:
          b = {0, number & 0xfffff, number & 0xfffff, 0};
          break;
        case Does::nothing:
          break;
        case Does::expect:
        case Does::expect_and_arrive:
          b.bytes = (b.bytes + number) & 0x7fffff;
          if (does == Does::expect) break;
          b.pending = (b.pending - 1) & 0xfffff;
          b.complete();
          break;
        case Does::finish:
          b.bytes = (b.bytes - number) & 0x7fffff;
          b.complete();
          break;
        case Does::drop:
          b.expected = (b.expected - number) & 0xfffff;
          [[fallthrough]];
        case Does::arrive:
          b.pending = (b.pending - number) & 0xfffff;
          b.complete();
          break;
        case Does::track:  // one more is awaited, and what it waits for has been done
          break;
        case Does::test:
        case Does::parity: {
          const uint64_t phase = does == Does::test ? m.at<uint64_t>(s.b)[l] & 1 : number & 1;
          m.at<uint8_t>(s.d)[l] = b.phase != phase;
          if (b.phase == phase) m.ticks += kTicksOfWaiting;
          continue;
        }
      }
      std::memcpy(at, &b, sizeof b);
      if (s.d != kNoSlot) std::memcpy(m.at<uint64_t>(s.d) + l, &before, sizeof before);
    }
}

bool emit(Decoder& d, Does does, size_t address, Slot number, Slot result) {
  const Decoder::Address at = d.address(d.operand(address), d.space());
  if (at.parameters) return false;
  const Handler run = !at.shared     ? &barrier<uint64_t, false>
                      : at.wide == 4 ? &barrier<uint32_t, true>
                                     : &barrier<uint64_t, true>;
  Step& step = d.emit(run, result, at.slot, number);
  step.mode = static_cast<uint8_t>(does);
  step.strength = Strength::strong;
  step.immediate = at.added;
  step.extra = d.cache();
  return true;
}

void pending_count(Machine& m, const Step& s) {
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      Barrier b;
      std::memcpy(&b, m.at<uint64_t>(s.a) + l, sizeof b);
      m.at<uint32_t>(s.d)[l] = b.pending;
    }
}

// [state,] [address] [, count]
bool decode_arrive(Decoder& d, Does does) {
  const bool has_state = d.operand(0).kind != Operand::Kind::address;
  const size_t address = has_state ? 1 : 0;
  const bool counts = d.operand_count() > address + 1;
  if (does == Does::expect_and_arrive && !counts) return false;
  const Slot number = counts ? d.source(address + 1, Type::b32) : kNoSlot;
  return emit(d, does, address, number, has_state ? d.destination(0, Type::b64) : kNoSlot);
}

// predicate, [address], state or parity [, time]
bool decode_test(Decoder& d) {
  const bool parity = d.has(".parity");
  const Slot phase = d.source(2, parity ? Type::b32 : Type::b64);
  return emit(d, parity ? Does::parity : Does::test, 1, phase, d.destination(0, Type::pred));
}

}  // namespace

bool complete_bytes(Decoder& d, size_t barrier, Slot bytes) {
  return emit(d, Does::finish, barrier, bytes, kNoSlot);
}

bool arrive_with_bytes(Machine& m, uint32_t lane, uint64_t address, uint32_t bytes) {
  uint8_t* const at = reach_shared(m, lane, address, 8, 8, true, Strength::strong);
  if (!at) return false;
  Barrier b;
  std::memcpy(&b, at, sizeof b);
  b.bytes = (b.bytes - bytes) & 0x7fffff;
  b.complete();
  std::memcpy(at, &b, sizeof b);
  return true;
}

bool decode_mbarrier(Decoder& d) {
  if (d.instruction().opcode == "cp") {
    // What cp.async copies is there by now.
    if (!d.has(".async") || !d.has(".mbarrier") || !d.has(".arrive")) return false;
    return emit(d, d.has(".noinc") ? Does::arrive : Does::track, 0, kNoSlot, kNoSlot);
  }
  if (d.has(".init")) return d.operand_count() > 1 && emit(d, Does::init, 0, d.source(1, Type::b32), kNoSlot);
  if (d.has(".inval")) return emit(d, Does::nothing, 0, kNoSlot, kNoSlot);
  if (d.has(".arrive")) return decode_arrive(d, d.has(".expect_tx") ? Does::expect_and_arrive : Does::arrive);
  if (d.has(".arrive_drop")) return !d.has(".expect_tx") && decode_arrive(d, Does::drop);
  if (d.has(".expect_tx") || d.has(".complete_tx"))
    return d.operand_count() > 1 &&
           emit(d, d.has(".expect_tx") ? Does::expect : Does::finish, 0, d.source(1, Type::b32), kNoSlot);
  if (d.has(".test_wait") || d.has(".try_wait")) return d.operand_count() > 2 && decode_test(d);
  if (!d.has(".pending_count") || d.operand_count() < 2) return false;
  const Slot state = d.source(1, Type::b64);
  d.emit(pending_count, d.destination(0, Type::b32), state);
  return true;
}

}  // namespace devtrace::simulate::kernels

// What the threads of a warp do together: vote, shfl, match, redux, elect, activemask.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"

namespace devtrace::simulate::kernels {
namespace {

// f(first lane, lanes that are here) for each warp that has any.
template <class F>
void each_warp(const Lanes& lanes, F f) {
  uint32_t next = 0;
  for (const Run run : lanes)
    for (uint32_t warp = std::max(next, run.begin / 32); warp * 32 < run.end; ++warp) {
      f(warp * 32, lanes.in_warp(warp));
      next = warp + 1;
    }
}
template <class F>
void each_lane(uint32_t bits, F f) {
  for (; bits; bits &= bits - 1) f(static_cast<uint32_t>(std::countr_zero(bits)));
}

// --- vote ---

enum class Vote : uint8_t { all, any, uni, ballot };

void vote(Machine& m, const Step& s) {
  const uint8_t* const p = m.at<uint8_t>(s.a);
  const auto how = static_cast<Vote>(s.mode);
  each_warp(*m.lanes, [&](uint32_t first, uint32_t here) {
    uint32_t yes = 0;
    each_lane(here, [&](uint32_t i) { yes |= static_cast<uint32_t>(p[first + i] & 1) << i; });
    each_lane(here, [&](uint32_t i) {
      if (how == Vote::ballot)
        m.at<uint32_t>(s.d)[first + i] = yes;
      else
        m.at<uint8_t>(s.d)[first + i] = how == Vote::any   ? yes != 0
                                        : how == Vote::all ? yes == here
                                                           : yes == here || yes == 0;
    });
  });
}

bool decode_vote(Decoder& d) {
  Vote how;
  if (d.has(".ballot"))
    how = Vote::ballot;
  else if (d.has(".all"))
    how = Vote::all;
  else if (d.has(".any"))
    how = Vote::any;
  else if (d.has(".uni"))
    how = Vote::uni;
  else
    return false;
  const Slot p = d.predicate(d.operand(1));
  if (d.has(".sync")) d.wait_for_warp(2);
  d.emit(vote, d.destination(0, how == Vote::ballot ? Type::b32 : Type::pred), p).mode = static_cast<uint8_t>(how);
  return true;
}

void activemask(Machine& m, const Step& s) {
  uint32_t* const d = m.at<uint32_t>(s.d);
  each_warp(*m.lanes,
            [&](uint32_t first, uint32_t here) { each_lane(here, [&](uint32_t i) { d[first + i] = here; }); });
}

// --- shfl ---

enum class Shuffle : uint8_t { up, down, bfly, idx };

// d = a of another lane; predicate in the slot `extra` of `more`.
void shuffle(Machine& m, const Step& s) {
  uint32_t* const d = m.at<uint32_t>(s.d);
  const uint32_t* const a = m.at<uint32_t>(s.a);
  const uint32_t* const b = m.at<uint32_t>(s.b);
  const uint32_t* const c = m.at<uint32_t>(s.c);
  uint8_t* const p = m.at<uint8_t>((*m.more)[s.extra]);
  each_warp(*m.lanes, [&](uint32_t first, uint32_t here) {
    uint32_t values[32];
    std::copy_n(a + first, 32, values);
    each_lane(here, [&](uint32_t i) {
      const uint32_t by = b[first + i] & 31, clamp = c[first + i] & 31, segment = c[first + i] >> 8 & 31;
      const uint32_t most = (i & segment) | (clamp & ~segment), least = i & segment;
      uint32_t from = i;
      bool inside = false;
      switch (static_cast<Shuffle>(s.mode)) {
        case Shuffle::up:
          from = i - by;
          inside = static_cast<int>(from) >= static_cast<int>(most);
          break;
        case Shuffle::down:
          from = i + by;
          inside = from <= most;
          break;
        case Shuffle::bfly:
          from = i ^ by;
          inside = from <= most;
          break;
        case Shuffle::idx:
          from = least | (by & ~segment);
          inside = from <= most;
          break;
      }
      d[first + i] = values[inside ? from & 31 : i];
      p[first + i] = inside;
    });
  });
}

bool decode_shuffle(Decoder& d) {
  constexpr std::string_view kNames[] = {".up", ".down", ".bfly", ".idx"};
  int how = -1;
  for (int i = 0; i < 4; ++i)
    if (d.has(kNames[i])) how = i;
  if (how < 0) return false;
  const Operand& to = d.operand(0);
  const bool pair = to.kind == Operand::Kind::pair;
  const Slot a = d.source(1, Type::b32), b = d.source(2, Type::b32), c = d.source(3, Type::b32);
  if (d.has(".sync")) d.wait_for_warp(4);
  const Slot p = pair ? d.destination(to.parts[1], Type::pred) : d.temporary(1);
  const uint32_t extra = d.more({p});
  Step& step = d.emit(shuffle, d.destination(pair ? to.parts[0] : to, Type::b32), a, b, c);
  step.mode = static_cast<uint8_t>(how);
  step.extra = extra;
  return true;
}

// --- match, redux, elect ---

template <class T, bool kAll>
void match(Machine& m, const Step& s) {
  uint32_t* const d = m.at<uint32_t>(s.d);
  const T* const a = m.at<T>(s.a);
  uint8_t* const p = m.at<uint8_t>((*m.more)[s.extra]);
  each_warp(*m.lanes, [&](uint32_t first, uint32_t here) {
    T values[32];
    std::copy_n(a + first, 32, values);
    each_lane(here, [&](uint32_t i) {
      uint32_t same = 0;
      each_lane(here, [&](uint32_t j) { same |= static_cast<uint32_t>(values[j] == values[i]) << j; });
      const bool all = same == here;
      d[first + i] = kAll && !all ? 0 : same;
      p[first + i] = all;
    });
  });
}

bool decode_match(Decoder& d) {
  const bool all = d.has(".all"), wide = ptx::bytes_of(d.type()) == 8;
  const Operand& to = d.operand(0);
  const bool pair = to.kind == Operand::Kind::pair;
  const Slot a = d.source(1);
  d.wait_for_warp(2);
  const Slot p = pair ? d.destination(to.parts[1], Type::pred) : d.temporary(1);
  const Handler run = wide  ? (all ? &match<uint64_t, true> : &match<uint64_t, false>)
                      : all ? &match<uint32_t, true>
                            : &match<uint32_t, false>;
  const uint32_t extra = d.more({p});
  d.emit(run, d.destination(pair ? to.parts[0] : to, Type::b32), a).extra = extra;
  return true;
}

template <class T, class F>
void redux(Machine& m, const Step& s) {
  T* const d = m.at<T>(s.d);
  const T* const a = m.at<T>(s.a);
  const uint32_t* const mask = m.at<uint32_t>(s.b);
  each_warp(*m.lanes, [&](uint32_t first, uint32_t here) {
    T values[32], results[32];
    std::copy_n(a + first, 32, values);
    // Lanes may name different sets: each has the result of its own.
    each_lane(here, [&](uint32_t i) {
      bool any = false;
      T result{};
      each_lane(here & mask[first + i], [&](uint32_t j) {
        result = any ? static_cast<T>(F()(result, values[j])) : values[j];
        any = true;
      });
      results[i] = result;
    });
    each_lane(here, [&](uint32_t i) { d[first + i] = results[i]; });
  });
}

struct Add {
  template <class T>
  T operator()(T a, T b) {
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) {
    return std::max(a, b);
  }
};
struct And {
  uint32_t operator()(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  uint32_t operator()(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  uint32_t operator()(uint32_t a, uint32_t b) { return a ^ b; }
};

bool decode_redux(Decoder& d) {
  const Type type = d.type();
  const bool sign = type == Type::s32;
  if (!sign && type != Type::u32 && type != Type::b32) return false;
  Handler run = nullptr;
  if (d.has(".add")) run = &redux<uint32_t, Add>;
  if (d.has(".min")) run = sign ? &redux<int32_t, Min> : &redux<uint32_t, Min>;
  if (d.has(".max")) run = sign ? &redux<int32_t, Max> : &redux<uint32_t, Max>;
  if (d.has(".and")) run = &redux<uint32_t, And>;
  if (d.has(".or")) run = &redux<uint32_t, Or>;
  if (d.has(".xor")) run = &redux<uint32_t, Xor>;
  if (!run) return false;
  const Slot a = d.source(1), mask = d.wait_for_warp(2);
  d.emit(run, d.destination(0), a, mask);
  return true;
}

void elect(Machine& m, const Step& s) {
  uint32_t* const d = m.at<uint32_t>(s.d);
  uint8_t* const p = m.at<uint8_t>(s.a);
  each_warp(*m.lanes, [&](uint32_t first, uint32_t here) {
    const auto leader = static_cast<uint32_t>(std::countr_zero(here));
    each_lane(here, [&](uint32_t i) {
      d[first + i] = leader;
      p[first + i] = i == leader;
    });
  });
}

bool decode_elect(Decoder& d) {
  const Operand& to = d.operand(0);
  if (to.kind != Operand::Kind::pair) return false;
  d.wait_for_warp(1);
  const Slot p = d.destination(to.parts[1], Type::pred);
  d.emit(elect, d.destination(to.parts[0], Type::b32), p);
  return true;
}

}  // namespace

bool decode_warp(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "vote") return decode_vote(d);
  if (op == "shfl") return decode_shuffle(d);
  if (op == "match") return decode_match(d);
  if (op == "redux") return decode_redux(d);
  if (op == "elect") return decode_elect(d);
  d.emit(activemask, d.destination(0, Type::b32));
  return true;
}

}  // namespace devtrace::simulate::kernels

// atom and red.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/reach.h"
#include "simulate/kernels/instructions/reduction.h"
#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {
namespace {

struct And {
  template <class T>
  T operator()(T old, T b) {
    return static_cast<T>(old & b);
  }
};
struct Or {
  template <class T>
  T operator()(T old, T b) {
    return static_cast<T>(old | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T old, T b) {
    return static_cast<T>(old ^ b);
  }
};
struct Exch {
  template <class T>
  T operator()(T, T b) {
    return b;
  }
};
struct Add {
  template <class T>
  T operator()(T old, T b) {
    if constexpr (std::is_floating_point_v<T>) return old + b;
    return static_cast<T>(old + b);
  }
};
struct Inc {
  template <class T>
  T operator()(T old, T b) {
    return static_cast<T>(old >= b ? 0 : old + 1);
  }
};
struct Dec {
  template <class T>
  T operator()(T old, T b) {
    return static_cast<T>(old == 0 || old > b ? b : old - 1);
  }
};
struct Min {
  template <class T>
  T operator()(T old, T b) {
    return std::min(old, b);
  }
};
struct Max {
  template <class T>
  T operator()(T old, T b) {
    return std::max(old, b);
  }
};
// Of two numbers of 16 bits, or of one.
template <class H, class F>
struct Small {
  uint16_t operator()(uint16_t old, uint16_t b) {
    return H::bits(static_cast<double>(F()(H::value(old), H::value(b))));
  }
  uint32_t operator()(uint32_t old, uint32_t b) {
    const auto half = [&](int at) { return (*this)(static_cast<uint16_t>(old >> at), static_cast<uint16_t>(b >> at)); };
    return half(0) | uint32_t{half(16)} << 16;
  }
};

template <size_t kBytes>
struct BitsOf;
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = uint32_t;
};
template <>
struct BitsOf<8> {
  using Type = uint64_t;
};

// What was there. Shared memory is one thread's of the host; all else may be others' as well.
template <bool kShared, class T, class F>
T change(uint8_t* at, F f) {
  using Bits = typename BitsOf<sizeof(T)>::Type;
  auto* const word = reinterpret_cast<Bits*>(at);
  if constexpr (kShared) {
    const T old = std::bit_cast<T>(*word);
    *word = std::bit_cast<Bits>(static_cast<T>(f(old)));
    return old;
  } else {
    Bits old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &old, std::bit_cast<Bits>(static_cast<T>(f(std::bit_cast<T>(old)))),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return std::bit_cast<T>(old);
  }
}

constexpr uint32_t kTicksOfWaiting = 256;  // exch and cas are what locks are made of

template <class T, class A, bool kShared, class F>
void atom(Machine& m, const Step& s) {
  T* const d = m.at<T>(s.d);
  const A* const a = m.at<A>(s.a);
  const T* const b = m.at<T>(s.b);
  m.ticks += s.mode2 * kTicksOfWaiting;
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      uint8_t* const at = access<A, kShared>(m, s, l, a[l], sizeof(T), sizeof(T), true);
      if (!at) return;
      const T value = b[l];
      d[l] = change<kShared, T>(at, [value](T old) { return F()(old, value); });
    }
}
template <class T, class A, bool kShared>
void cas(Machine& m, const Step& s) {
  T* const d = m.at<T>(s.d);
  const A* const a = m.at<A>(s.a);
  const T* const b = m.at<T>(s.b);
  const T* const c = m.at<T>(s.c);
  m.ticks += kTicksOfWaiting;
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      uint8_t* const at = access<A, kShared>(m, s, l, a[l], sizeof(T), sizeof(T), true);
      if (!at) return;
      const T wanted = b[l], value = c[l];
      d[l] = change<kShared, T>(at, [=](T old) { return old == wanted ? value : old; });
    }
}
// 128 bits, under one lock: the two words are never seen apart by another kernel's.
struct Word128 {
  uint64_t low, high;
};
template <class A, bool kShared, bool kCompare>
void atom128(Machine& m, const Step& s) {
  auto* const d = m.at<Word128>(s.d);
  const A* const a = m.at<A>(s.a);
  const auto* const b = m.at<Word128>(s.b);
  const auto* const c = kCompare ? m.at<Word128>(s.c) : b;
  static bool busy = false;
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      uint8_t* const at = access<A, kShared>(m, s, l, a[l], 16, 16, true);
      if (!at) return;
      while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {
      }
      auto* const word = reinterpret_cast<Word128*>(at);
      const Word128 old = *word, wanted = b[l], value = c[l];
      if (!kCompare || (old.low == wanted.low && old.high == wanted.high)) *word = value;
      __atomic_clear(&busy, __ATOMIC_RELEASE);
      d[l] = old;
    }
}

template <class F>
Handler by_address(const Decoder::Address& at, F f) {
  if (!at.shared) return f.template operator()<uint64_t, false>();
  return at.wide == 4 ? f.template operator()<uint32_t, true>() : f.template operator()<uint64_t, true>();
}

template <class T, class F>
Handler of(const Decoder::Address& at) {
  return by_address(at, []<class A, bool kShared>() -> Handler { return &atom<T, A, kShared, F>; });
}

template <class F>
Handler integers(const Decoder::Address& at, Type type) {
  switch (type) {
    case Type::u32:
    case Type::b32:
      return of<uint32_t, F>(at);
    case Type::s32:
      return of<int32_t, F>(at);
    case Type::u64:
    case Type::b64:
      return of<uint64_t, F>(at);
    case Type::s64:
      return of<int64_t, F>(at);
    default:
      return nullptr;
  }
}
template <class F>
Handler reals(const Decoder::Address& at, Type type) {
  switch (type) {
    case Type::f32:
      return of<float, F>(at);
    case Type::f64:
      return of<double, F>(at);
    case Type::f16:
      return of<uint16_t, Small<Half, F>>(at);
    case Type::bf16:
      return of<uint16_t, Small<Bfloat, F>>(at);
    case Type::f16x2:
      return of<uint32_t, Small<Half, F>>(at);
    case Type::bf16x2:
      return of<uint32_t, Small<Bfloat, F>>(at);
    default:
      return nullptr;
  }
}
template <class F>
Handler numbers(const Decoder::Address& at, Type type) {
  const Handler whole = integers<F>(at, type);
  return whole ? whole : reals<F>(at, type);
}

Handler choose(Decoder& d, const Decoder::Address& at, Type type) {
  if (d.has(".add")) return numbers<Add>(at, type);
  if (d.has(".min")) return numbers<Min>(at, type);
  if (d.has(".max")) return numbers<Max>(at, type);
  if (d.has(".and")) return integers<And>(at, type);
  if (d.has(".or")) return integers<Or>(at, type);
  if (d.has(".xor")) return integers<Xor>(at, type);
  if (d.has(".inc")) return integers<Inc>(at, type);
  if (d.has(".dec")) return integers<Dec>(at, type);
  if (d.has(".exch")) {
    if (type == Type::b128)
      return by_address(at, []<class A, bool kShared>() -> Handler { return &atom128<A, kShared, false>; });
    return integers<Exch>(at, type);
  }
  if (d.has(".cas")) {
    if (type == Type::b128)
      return by_address(at, []<class A, bool kShared>() -> Handler { return &atom128<A, kShared, true>; });
    return by_address(at, [type]<class A, bool kShared>() -> Handler {
      switch (ptx::bytes_of(type)) {
        case 2:
          return &cas<uint16_t, A, kShared>;
        case 4:
          return &cas<uint32_t, A, kShared>;
        case 8:
          return &cas<uint64_t, A, kShared>;
        default:
          return nullptr;
      }
    });
  }
  return nullptr;
}

// --- Of many bytes at once ---

template <class T, class F>
void reduce(uint8_t* there, const uint8_t* value) {
  T b;
  std::memcpy(&b, value, sizeof b);
  change<false, T>(there, [b](T old) { return F()(old, b); });
}

template <class F>
Reduce reduce_integers(Type type) {
  switch (type) {
    case Type::u32:
    case Type::b32:
      return &reduce<uint32_t, F>;
    case Type::s32:
      return &reduce<int32_t, F>;
    case Type::u64:
    case Type::b64:
      return &reduce<uint64_t, F>;
    case Type::s64:
      return &reduce<int64_t, F>;
    default:
      return nullptr;
  }
}
template <class F>
Reduce reduce_numbers(Type type) {
  switch (type) {
    case Type::f16:
      return &reduce<uint16_t, Small<Half, F>>;
    case Type::bf16:
      return &reduce<uint16_t, Small<Bfloat, F>>;
    case Type::f32:
      return &reduce<float, F>;
    case Type::f64:
      return &reduce<double, F>;
    default:
      return reduce_integers<F>(type);
  }
}

}  // namespace

Reduction reduction_named(const Decoder& d) {
  struct Row {
    std::string_view name;
    Reduction reduction;
  };
  constexpr Row kRows[] = {{".add", Reduction::add},   {".min", Reduction::min},    {".max", Reduction::max},
                           {".inc", Reduction::inc},   {".dec", Reduction::dec},    {".and", Reduction::bit_and},
                           {".or", Reduction::bit_or}, {".xor", Reduction::bit_xor}};
  for (const Row& row : kRows)
    if (d.has(row.name)) return row.reduction;
  return Reduction::none;
}

Reduce reduction(Reduction which, Type type) {
  switch (which) {
    case Reduction::add:
      return reduce_numbers<Add>(type);
    case Reduction::min:
      return reduce_numbers<Min>(type);
    case Reduction::max:
      return reduce_numbers<Max>(type);
    case Reduction::inc:
      return reduce_integers<Inc>(type);
    case Reduction::dec:
      return reduce_integers<Dec>(type);
    case Reduction::bit_and:
      return reduce_integers<And>(type);
    case Reduction::bit_or:
      return reduce_integers<Or>(type);
    case Reduction::bit_xor:
      return reduce_integers<Xor>(type);
    default:
      return nullptr;
  }
}

bool decode_atomic(Decoder& d) {
  const bool red = d.instruction().opcode == "red";
  const Type type = d.type();
  const size_t first = red ? 0 : 1;
  if (d.operand_count() < first + 2 || d.has(".async")) return false;
  const Decoder::Address at = d.address(d.operand(first), d.space());
  const Handler run = choose(d, at, type);
  if (!run || at.parameters) return false;
  const std::vector<Operand> values = d.parts(d.operand(first + 1));
  const std::vector<Operand> results = red ? std::vector<Operand>(values.size()) : d.parts(d.operand(0));
  if (results.size() != values.size()) return false;
  // Each element of a vector by itself.
  for (size_t i = 0; i < values.size(); ++i) {
    const Slot b = d.source(values[i], type), c = d.has(".cas") ? d.source(first + 2) : kNoSlot;
    Step& step = d.emit(run, d.destination(results[i], type), at.slot, b, c);
    step.immediate = at.added + static_cast<int64_t>(i * ptx::bytes_of(type));
    step.extra = d.cache();
    step.mode2 = d.has(".exch");
    step.strength = Strength::atomic;
  }
  return true;
}

}  // namespace devtrace::simulate::kernels

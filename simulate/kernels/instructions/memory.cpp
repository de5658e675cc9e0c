// ld, st, cvta, isspacep, cp.async, and what only makes memory faster.
#include <algorithm>
#include <cstring>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/mbarrier.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

struct Word128 {
  uint64_t low, high;
};

constexpr uint32_t kChunk = 16;  // lanes that are looked at together

// How the addresses of a chunk's lanes lie.
enum class Order : uint8_t { any, same, row };  // row: neighbours have neighbouring elements

template <size_t kSize, class A>
Order order_of(const A* a) {
  A different = 0;
  if (a[1] == a[0]) {
    for (uint32_t i = 2; i < kChunk; ++i) different |= a[i] ^ a[0];
    return different ? Order::any : Order::same;
  }
  for (uint32_t i = 1; i < kChunk; ++i) different |= a[i] ^ static_cast<A>(a[0] + static_cast<A>(i * kSize));
  return different ? Order::any : Order::row;
}

// Where the bytes of a whole chunk are, if that is known without a question: aligned, and in shared memory or the block
// of the last access.
template <class A, bool kShared>
uint8_t* quickly(Machine& m, const Step& s, A address, size_t size, size_t alignment) {
  const uint64_t sum = static_cast<uint64_t>(address) + static_cast<uint64_t>(s.immediate);
  const uint64_t at = kShared && sizeof(A) == 4 ? static_cast<uint32_t>(sum) : sum;
  if (at & (alignment - 1)) return nullptr;
  if constexpr (kShared) return size <= m.quick_shared && at <= m.quick_shared - size ? m.shared + at : nullptr;
  const Extent& known = m.cache[s.extra];
  const bool inside = size <= known.size && at - known.begin <= known.size - size;
  return inside ? reinterpret_cast<uint8_t*>(at) : nullptr;
}

constexpr uint32_t kTicksOfWaiting = 256;  // for a load that others' stores are waited for with

template <class T, class A, bool kShared>
void load(Machine& m, const Step& s) {
  T* const d = m.at<T>(s.d);
  const A* const a = m.at<A>(s.a);
  m.ticks += s.mode2 * kTicksOfWaiting;
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end;) {
      const uint32_t count = std::min(kChunk, run.end - l);
      const Order order = count == kChunk ? order_of<sizeof(T)>(a + l) : Order::any;
      if (order != Order::any) {
        const size_t size = order == Order::row ? kChunk * sizeof(T) : sizeof(T);
        if (const uint8_t* const from = quickly<A, kShared>(m, s, a[l], size, sizeof(T))) {
          if (order == Order::row) {
            std::memcpy(d + l, from, kChunk * sizeof(T));
          } else {
            const T value = *reinterpret_cast<const T*>(from);
            for (uint32_t i = 0; i < kChunk; ++i) d[l + i] = value;
          }
          l += kChunk;
          continue;
        }
      }
      for (const uint32_t end = l + count; l < end; ++l) {
        const uint8_t* const from = access<A, kShared>(m, s, l, a[l], sizeof(T), sizeof(T), false);
        if (!from) return;
        d[l] = *reinterpret_cast<const T*>(from);
      }
    }
}

template <class T, class A, bool kShared>
void store(Machine& m, const Step& s) {
  const T* const b = m.at<T>(s.b);
  const A* const a = m.at<A>(s.a);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end;) {
      const uint32_t count = std::min(kChunk, run.end - l);
      if (count == kChunk && order_of<sizeof(T)>(a + l) == Order::row)
        if (uint8_t* const to = quickly<A, kShared>(m, s, a[l], kChunk * sizeof(T), sizeof(T))) {
          std::memcpy(to, b + l, kChunk * sizeof(T));
          l += kChunk;
          continue;
        }
      for (const uint32_t end = l + count; l < end; ++l) {
        uint8_t* const to = access<A, kShared>(m, s, l, a[l], sizeof(T), sizeof(T), true);
        if (!to) return;
        *reinterpret_cast<T*>(to) = b[l];
      }
    }
}

// Vectors: mode elements, in the slots from s.b on in `more`.
template <class T, class A, bool kShared, bool kStore>
void vector(Machine& m, const Step& s) {
  const A* const a = m.at<A>(s.a);
  const size_t size = s.mode * sizeof(T);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      uint8_t* const at = access<A, kShared>(m, s, l, a[l], size, size, kStore);
      if (!at) return;
      for (uint32_t i = 0; i < s.mode; ++i) {
        T& element = m.at<T>((*m.more)[s.b + i])[l];
        T& there = reinterpret_cast<T*>(at)[i];
        (kStore ? there : element) = kStore ? element : there;
      }
    }
}

// From an entry's parameters: the same for all.
template <class T>
void load_parameter(Machine& m, const Step& s) {
  T value{};
  const auto at = static_cast<size_t>(s.immediate);
  if (at <= m.parameter_bytes && sizeof(T) <= m.parameter_bytes - at) std::memcpy(&value, m.parameters + at, sizeof(T));
  T* const d = m.at<T>(s.d);
  for (const Run run : *m.lanes) std::fill(d + run.begin, d + run.end, value);
}

template <class F>
Handler by_size(size_t bytes, F f) {
  return bytes == 16 ? f(Word128()) : by_bits(bytes, f);
}

enum class What : uint8_t { load, store, load_vector, store_vector };

Handler handler(size_t bytes, const Decoder::Address& at, What what) {
  return by_size(bytes, [&](auto t) -> Handler {
    using T = decltype(t);
    const auto pick = [&]<class A, bool kShared>() -> Handler {
      switch (what) {
        case What::load:
          return &load<T, A, kShared>;
        case What::store:
          return &store<T, A, kShared>;
        case What::load_vector:
          return &vector<T, A, kShared, false>;
        default:
          return &vector<T, A, kShared, true>;
      }
    };
    if (!at.shared) return pick.template operator()<uint64_t, false>();
    return at.wide == 4 ? pick.template operator()<uint32_t, true>() : pick.template operator()<uint64_t, true>();
  });
}

bool is_strong(Decoder& d) {
  return d.has(".volatile") || d.has(".acquire") || d.has(".release") || d.has(".relaxed") || d.has(".mmio");
}

bool decode_load(Decoder& d) {
  const Type type = d.type();
  const size_t bytes = ptx::bytes_of(type);
  if (!bytes || d.operand_count() < 2 || d.has(".async")) return false;
  const Decoder::Address at = d.address(d.operand(1), d.space());
  const std::vector<Operand> parts = d.parts(d.operand(0));
  if (at.parameters) {
    const Handler run = by_size(bytes, [](auto t) -> Handler { return &load_parameter<decltype(t)>; });
    for (size_t i = 0; i < parts.size(); ++i)
      d.emit(run, d.destination(parts[i], type)).immediate = at.added + static_cast<int64_t>(i * bytes);
    return true;
  }
  const bool several = parts.size() > 1;
  const Handler run = handler(bytes, at, several ? What::load_vector : What::load);
  if (!run) return false;
  std::vector<Slot> slots;
  for (const Operand& part : parts) slots.push_back(d.destination(part, type));
  Step& step = several ? d.emit(run, kNoSlot, at.slot, d.more(slots)) : d.emit(run, slots[0], at.slot);
  step.immediate = at.added;
  step.mode = static_cast<uint8_t>(parts.size());
  step.mode2 = is_strong(d);
  if (is_strong(d)) step.strength = Strength::strong;
  step.extra = d.cache();
  return true;
}

bool decode_store(Decoder& d) {
  const Type type = d.type();
  const size_t bytes = ptx::bytes_of(type);
  const bool counted = d.has(".async");  // at a barrier
  if (!bytes || d.operand_count() < (counted ? 3 : 2) || d.has(".bulk")) return false;
  const Decoder::Address at = d.address(d.operand(0), d.space());
  if (at.parameters) return false;
  const std::vector<Operand> parts = d.parts(d.operand(1));
  const bool several = parts.size() > 1;
  const Handler run = handler(bytes, at, several ? What::store_vector : What::store);
  if (!run) return false;
  std::vector<Slot> slots;
  for (const Operand& part : parts) slots.push_back(d.source(part, type));
  Step& step = d.emit(run, kNoSlot, at.slot, several ? d.more(slots) : slots[0]);
  step.immediate = at.added;
  step.mode = static_cast<uint8_t>(parts.size());
  if (is_strong(d)) step.strength = Strength::strong;
  step.extra = d.cache();
  return !counted || complete_bytes(d, 2, d.constant(bytes * parts.size(), 4));
}

// --- Addresses of one space as addresses of any, and back. Only shared memory has its own. ---

template <bool kTo>
void shared_address(Machine& m, const Step& s) {
  const auto base = reinterpret_cast<uint64_t>(m.shared);
  map1<uint64_t, uint64_t>(m, s, [&, base](uint64_t a) {
    if (kTo) return a - base;
    const uint64_t rank = (a >> kRankShift) - 1;
    if (!(a >> kRankShift) || rank >= m.cluster.size()) return a + base;
    return reinterpret_cast<uint64_t>(m.cluster[rank]->shared) + (a & ((uint64_t{1} << kRankShift) - 1));
  });
}
void same(Machine& m, const Step& s) {
  map1<uint64_t, uint64_t>(m, s, [](uint64_t a) { return a; });
}

bool decode_cvta(Decoder& d) {
  const bool shared = d.space() == Space::shared;
  const Slot a = d.source(1, Type::b64);
  const Slot to = d.destination(0, Type::b64);
  if (!shared)
    d.emit(same, to, a);
  else
    d.emit(d.has(".to") ? &shared_address<true> : &shared_address<false>, to, a);
  return true;
}

void isspacep(Machine& m, const Step& s) {
  const auto in = [](uint64_t a, const uint8_t* begin, size_t bytes) {
    return a - reinterpret_cast<uint64_t>(begin) < bytes;
  };
  map1<uint8_t, uint64_t>(m, s, [&](uint64_t a) -> uint8_t {
    bool shared = in(a, m.shared, m.shared_bytes);
    if (s.mode2)
      for (const Machine* const block : m.cluster) shared = shared || in(a, block->shared, block->shared_bytes);
    const bool local = in(a, m.local, m.local_all);
    const bool parameters = in(a, m.parameters, m.parameter_bytes);
    switch (static_cast<Space>(s.mode)) {
      case Space::shared:
        return shared;
      case Space::local:
        return local;
      case Space::param:
        return parameters;
      case Space::global:
        return !shared && !local && !parameters;
      default:
        return 0;
    }
  });
}

// --- cp.async: done at once, so there is never anything to wait for. ---

void copy_to_shared(Machine& m, const Step& s) {
  const uint64_t* const to = m.at<uint64_t>(s.d);
  const uint64_t* const from = m.at<uint64_t>(s.a);
  const uint32_t* const size = m.at<uint32_t>(s.b);
  const auto to_added = static_cast<int32_t>(s.immediate >> 32), from_added = static_cast<int32_t>(s.immediate);
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      const uint64_t offset = to[l] + static_cast<uint64_t>(int64_t{to_added});
      uint8_t* const there = reach_shared(m, l, offset, s.mode, s.mode, true);
      if (!there) return;
      const uint32_t count = std::min<uint32_t>(size[l], s.mode);
      std::memset(there, 0, s.mode);
      if (!count) continue;
      const uint64_t at = from[l] + static_cast<uint64_t>(int64_t{from_added});
      const uint8_t* const here = reach(m, l, at, count, 1, false, m.cache + s.extra);
      if (!here) return;
      std::memcpy(there, here, count);
    }
}

bool decode_copy(Decoder& d) {
  if (!d.has(".async") || d.has(".bulk") || d.has(".mbarrier")) return false;
  if (d.has(".commit_group") || d.has(".wait_group") || d.has(".wait_all")) return true;
  if (d.operand_count() < 3 || d.operand(2).kind != Operand::Kind::integer) return false;
  const Decoder::Address to = d.address(d.operand(0), Space::shared), from = d.address(d.operand(1), Space::global);
  Slot wide = to.slot;
  if (to.wide == 4) {
    wide = d.temporary(8);
    d.convert(wide, 8, to.slot, 4, false);
  }
  const uint64_t bytes = d.operand(2).value;
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  Slot size = d.constant(bytes, 4);
  // Besides it a number of bytes, or a predicate: nothing is read, all is zero; then a cache's policy.
  if (d.operand_count() > 3 && !d.has(".L2::cache_hint")) size = d.source(3, Type::b32);
  Step& step = d.emit(copy_to_shared, wide, from.slot, size);
  step.mode = static_cast<uint8_t>(bytes);
  step.immediate = static_cast<int64_t>(static_cast<uint64_t>(to.added) << 32 | static_cast<uint32_t>(from.added));
  step.extra = d.cache();
  return true;
}

void zero(Machine& m, const Step& s) {
  uint64_t* const d = m.at<uint64_t>(s.d);
  for (const Run run : *m.lanes) std::fill(d + run.begin, d + run.end, 0);
}

}  // namespace

bool decode_memory(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "ld" || op == "ldu") return decode_load(d);
  if (op == "st") return decode_store(d);
  if (op == "cvta") return decode_cvta(d);
  if (op == "cp") return decode_copy(d);
  if (op == "isspacep") {
    const Slot a = d.source(1, Type::b64);
    Step& step = d.emit(isspacep, d.destination(0, Type::pred), a);
    step.mode = static_cast<uint8_t>(d.space());
    step.mode2 = d.has(".shared::cluster") || d.space() == Space::global;
    return true;
  }
  if (op == "createpolicy") {
    d.emit(zero, d.destination(0, Type::b64));
    return true;
  }
  return !d.has(".tensor");  // prefetch, applypriority, discard: nothing to see
}

}  // namespace devtrace::simulate::kernels

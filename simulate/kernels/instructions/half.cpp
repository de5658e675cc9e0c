// Arithmetic of f16, bf16 and of two of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/small_floats.h"

namespace devtrace::simulate::kernels {
namespace {

struct Add {
  double operator()(double a, double b) { return a + b; }
};
struct Sub {
  double operator()(double a, double b) { return a - b; }
};
struct Mul {
  double operator()(double a, double b) { return a * b; }
};
struct Fma {
  double operator()(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Min {
  double operator()(double a, double b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  double operator()(double a, double b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
template <class F>
struct OrNan {
  double operator()(double a, double b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : F()(a, b);
  }
};
struct Ex2 {
  double operator()(double a) { return std::exp2(a); }
};
struct Tanh {
  double operator()(double a) { return std::tanh(a); }
};
struct Saturated {
  static double of(double x) { return x > 0 ? std::min(x, 1.0) : 0; }
};
struct Relu {
  static double of(double x) { return std::isnan(x) ? x : std::max(x, 0.0); }
};
struct Plain {
  static double of(double x) { return x; }
};

// F over numbers of a type of 16 bits.
template <class H, class F, class After>
struct Of {
  template <class... A>
  uint16_t operator()(uint16_t a, A... more) {
    return H::bits(After::of(F()(static_cast<double>(H::value(a)), static_cast<double>(H::value(more))...)));
  }
};
template <class G>
struct Pair {
  template <class... A>
  uint32_t operator()(uint32_t a, A... more) {
    const uint32_t low = G()(static_cast<uint16_t>(a), static_cast<uint16_t>(more)...);
    const uint32_t high = G()(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(more >> 16)...);
    return low | high << 16;
  }
};

template <class G, int kOperands>
Handler wide_or_not(bool two) {
  if constexpr (kOperands == 1) return two ? &unary<uint32_t, Pair<G>> : &unary<uint16_t, G>;
  if constexpr (kOperands == 2) return two ? &binary<uint32_t, Pair<G>> : &binary<uint16_t, G>;
  if constexpr (kOperands == 3) return two ? &ternary<uint32_t, Pair<G>> : &ternary<uint16_t, G>;
}
template <class F, int kOperands, class After>
Handler of_type(bool bfloat, bool two) {
  return bfloat ? wide_or_not<Of<Bfloat, F, After>, kOperands>(two) : wide_or_not<Of<Half, F, After>, kOperands>(two);
}
template <class F, int kOperands>
Handler handler(Decoder& d, bool bfloat, bool two) {
  if (d.has(".sat")) return of_type<F, kOperands, Saturated>(bfloat, two);
  if (d.has(".relu")) return of_type<F, kOperands, Relu>(bfloat, two);
  return of_type<F, kOperands, Plain>(bfloat, two);
}

struct Abs {
  uint16_t operator()(uint16_t a) { return a & 0x7fff; }
};
struct Neg {
  uint16_t operator()(uint16_t a) { return a ^ 0x8000; }
};

Handler choose(Decoder& d, std::string_view op, bool bfloat, bool two) {
  if (op == "add") return handler<Add, 2>(d, bfloat, two);
  if (op == "sub") return handler<Sub, 2>(d, bfloat, two);
  if (op == "mul") return handler<Mul, 2>(d, bfloat, two);
  if (op == "fma") return handler<Fma, 3>(d, bfloat, two);
  if (op == "min") return d.has(".NaN") ? handler<OrNan<Min>, 2>(d, bfloat, two) : handler<Min, 2>(d, bfloat, two);
  if (op == "max") return d.has(".NaN") ? handler<OrNan<Max>, 2>(d, bfloat, two) : handler<Max, 2>(d, bfloat, two);
  if (op == "ex2") return handler<Ex2, 1>(d, bfloat, two);
  if (op == "tanh") return handler<Tanh, 1>(d, bfloat, two);
  if (op == "abs") return wide_or_not<Abs, 1>(two);
  if (op == "neg") return wide_or_not<Neg, 1>(two);
  return nullptr;
}

}  // namespace

bool decode_half(Decoder& d) {
  const Type type = d.type();
  const bool two = type == Type::f16x2 || type == Type::bf16x2;
  const bool bfloat = type == Type::bf16 || type == Type::bf16x2;
  if (!two && type != Type::f16 && type != Type::bf16) return false;
  if (d.types().size() > 1 && d.types()[0] != type) return false;
  const Handler run = choose(d, d.instruction().opcode, bfloat, two);
  if (!run) return false;
  const Slot a = d.source(1), b = d.operand_count() > 2 ? d.source(2) : kNoSlot;
  const Slot c = d.operand_count() > 3 ? d.source(3) : kNoSlot;
  d.emit(run, d.destination(0), a, b, c);
  return true;
}

}  // namespace devtrace::simulate::kernels

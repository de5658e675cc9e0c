// Floating point of 32 and 64 bits: arithmetic with its roundings, and the functions that hardware approximates.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/clones.h"
#include "simulate/kernels/instructions/loops.h"
#include "simulate/kernels/instructions/rounding.h"

namespace devtrace::simulate::kernels {
namespace {

template <class T>
T flushed(T x) {
  return std::fabs(x) < std::numeric_limits<T>::min() ? std::copysign(T{0}, x) : x;
}
template <class T>
T saturated(T x) {
  return x > T{0} ? (x < T{1} ? x : T{1}) : T{0};  // NaN is 0
}

struct Add {
  template <class T>
  T operator()(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) {
    return a / b;
  }
};
// A NaN loses against a number; -0 is less than +0.
struct Min {
  template <class T>
  T operator()(T a, T b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
template <class F>
struct OrNan {  // .NaN
  template <class T>
  T operator()(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    return F()(a, b);
  }
};
template <class F>
struct SignXor {  // .xorsign.abs
  template <class T>
  T operator()(T a, T b) {
    const bool sign = std::signbit(a) != std::signbit(b);
    return std::copysign(F()(std::fabs(a), std::fabs(b)), sign ? T{-1} : T{1});
  }
};
struct CopySign {
  template <class T>
  T operator()(T a, T b) {
    return std::copysign(b, a);
  }
};
struct Fma {
  template <class T>
  T operator()(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Abs {
  template <class T>
  T operator()(T a) {
    return std::fabs(a);
  }
};
struct Neg {
  template <class T>
  T operator()(T a) {
    return -a;
  }
};
struct Rcp {
  template <class T>
  T operator()(T a) {
    return T{1} / a;
  }
};
struct Sqrt {
  template <class T>
  T operator()(T a) {
    return std::sqrt(a);
  }
};
struct Rsqrt {
  template <class T>
  T operator()(T a) {
    // By way of double: nearer to the true value than hardware's.
    return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a)));
  }
};
struct Sin {
  template <class T>
  T operator()(T a) {
    return std::sin(a);
  }
};
struct Cos {
  template <class T>
  T operator()(T a) {
    return std::cos(a);
  }
};
struct Lg2 {
  template <class T>
  T operator()(T a) {
    return std::log2(a);
  }
};
struct Ex2 {
  template <class T>
  T operator()(T a) {
    return std::exp2(a);
  }
};
struct Tanh {
  template <class T>
  T operator()(T a) {
    return std::tanh(a);
  }
};

// With subnormal numbers taken for zero, and the result between 0 and 1, where that is asked for.
template <class F, bool kFlush, bool kSaturate>
struct Mode {
  template <class T, class... More>
  T operator()(T a, More... more) {
    T r = kFlush ? flushed(F()(flushed(a), flushed(more)...)) : F()(a, more...);
    return kSaturate ? saturated(r) : r;
  }
};

struct Variant {
  bool wide, flush, saturate;
};

template <class F, bool kFlush, bool kSaturate, int kOperands>
Handler of(bool wide) {
  using M = Mode<F, kFlush, kSaturate>;
  if constexpr (kOperands == 1) return wide ? &unary<double, M> : &unary<float, M>;
  if constexpr (kOperands == 2) return wide ? &binary<double, M> : &binary<float, M>;
  if constexpr (kOperands == 3) return wide ? &ternary<double, M> : &ternary<float, M>;
}
template <class F, int kOperands>
Handler handler(const Variant& v) {
  if (v.flush) return v.saturate ? of<F, true, true, kOperands>(v.wide) : of<F, true, false, kOperands>(v.wide);
  return v.saturate ? of<F, false, true, kOperands>(v.wide) : of<F, false, false, kOperands>(v.wide);
}

// The one that programs have most, with the processor's own instruction where it has one. The loop has to be inlined:
// what a clone calls is compiled for every processor.
template <class T>
[[gnu::always_inline]] inline void fma_all(Machine& m, const Step& s) {
  T* const d = m.at<T>(s.d);
  const T* const a = m.at<T>(s.a);
  const T* const b = m.at<T>(s.b);
  const T* const c = m.at<T>(s.c);
  for (const Run run : *m.lanes)
#pragma GCC ivdep
    for (uint32_t l = run.begin; l < run.end; ++l) {
      if constexpr (sizeof(T) == 4)
        d[l] = __builtin_fmaf(a[l], b[l], c[l]);
      else
        d[l] = __builtin_fma(a[l], b[l], c[l]);
    }
}
IN_CLONES void fma_single(Machine& m, const Step& s) {
  fma_all<float>(m, s);
}
IN_CLONES void fma_double(Machine& m, const Step& s) {
  fma_all<double>(m, s);
}

template <class F>
Handler least(Decoder& d, const Variant& v) {
  if (d.has(".xorsign")) return d.has(".NaN") ? handler<OrNan<SignXor<F>>, 2>(v) : handler<SignXor<F>, 2>(v);
  return d.has(".NaN") ? handler<OrNan<F>, 2>(v) : handler<F, 2>(v);
}

Handler choose(Decoder& d, std::string_view op, const Variant& v) {
  if (op == "add") return handler<Add, 2>(v);
  if (op == "sub") return handler<Sub, 2>(v);
  if (op == "mul") return handler<Mul, 2>(v);
  if (op == "div") return handler<Div, 2>(v);
  if (op == "min") return least<Min>(d, v);
  if (op == "max") return least<Max>(d, v);
  if (op == "copysign") return handler<CopySign, 2>(v);
  if (op == "fma" || op == "mad") {
    if (!v.flush && !v.saturate) return v.wide ? &fma_double : &fma_single;
    return handler<Fma, 3>(v);
  }
  if (op == "abs") return handler<Abs, 1>(v);
  if (op == "neg") return handler<Neg, 1>(v);
  if (op == "rcp") return handler<Rcp, 1>(v);
  if (op == "sqrt") return handler<Sqrt, 1>(v);
  if (op == "rsqrt") return handler<Rsqrt, 1>(v);
  if (op == "sin") return handler<Sin, 1>(v);
  if (op == "cos") return handler<Cos, 1>(v);
  if (op == "lg2") return handler<Lg2, 1>(v);
  if (op == "ex2") return handler<Ex2, 1>(v);
  if (op == "tanh") return handler<Tanh, 1>(v);
  return nullptr;
}

template <class T>
void testp(Machine& m, const Step& s) {
  map1<uint8_t, T>(m, s, [what = s.mode](T a) -> uint8_t {
    switch (what) {
      case 0:
        return std::isfinite(a);
      case 1:
        return std::isinf(a);
      case 2:
        return !std::isnan(a);
      case 3:
        return std::isnan(a);
      case 4:
        return std::isnormal(a);
      default:
        return std::fpclassify(a) == FP_SUBNORMAL;
    }
  });
}

bool decode_testp(Decoder& d) {
  constexpr std::string_view kNames[] = {".finite", ".infinite", ".number", ".notanumber", ".normal", ".subnormal"};
  for (uint8_t i = 0; i < 6; ++i)
    if (d.has(kNames[i])) {
      const Slot a = d.source(1);
      d.emit(d.type() == Type::f64 ? &testp<double> : &testp<float>, d.destination(0, Type::pred), a).mode = i;
      return true;
    }
  return false;
}

// min and max of three.
bool three_of(Decoder& d, Handler run) {
  const Slot a = d.source(1), b = d.source(2), c = d.source(3), t = d.temporary(ptx::bytes_of(d.type()));
  d.emit(run, t, a, b);
  d.emit(run, d.destination(0), t, c);
  return true;
}

// PTX ISA, "add": sums without a rounding may take a product without one into them. The driver's compiler does that,
// and results are rounded once.
bool decode_fused(Decoder& d, const Variant& v) {
  const bool of_first = d.product(1);
  const ptx::Instruction* const product = of_first ? d.product(1) : d.product(2);
  if (!product) return false;
  const Type type = d.type();
  Slot a = d.source(product->operands[1], type), c = d.source(of_first ? 2 : 1);
  const Slot b = d.source(product->operands[2], type);
  if (d.instruction().opcode == "sub") {
    Slot& negative = of_first ? c : a;
    const Slot t = d.temporary(ptx::bytes_of(type));
    d.emit(v.wide ? &unary<double, Neg> : &unary<float, Neg>, t, negative);
    negative = t;
  }
  d.emit(choose(d, "fma", v), d.destination(0), a, b, c);
  return true;
}

}  // namespace

bool decode_real(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  const Type type = d.type();
  if (type != Type::f32 && type != Type::f64) return false;
  if (op == "testp") return decode_testp(d);
  const Handler run = choose(d, op, {type == Type::f64, d.has(".ftz"), d.has(".sat")});
  if (!run) return false;
  if ((op == "add" || op == "sub") && d.types().size() == 1 && d.operand_count() == 3 &&
      decode_fused(d, {type == Type::f64, d.has(".ftz"), d.has(".sat")}))
    return true;
  // Mixed precision: add.f32.f16 d, a, c.
  if (d.types().size() > 1 && d.types()[0] != type) return false;
  if (d.operand_count() == 4 && (op == "min" || op == "max")) return three_of(d, run);
  const Slot a = d.source(1), b = d.operand_count() > 2 ? d.source(2) : kNoSlot;
  const Slot c = d.operand_count() > 3 ? d.source(3) : kNoSlot;
  emit_rounded(d, run, {d.destination(0), a, b, c});
  return true;
}

}  // namespace devtrace::simulate::kernels

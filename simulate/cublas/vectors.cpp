#include "simulate/cublas/vectors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace devtrace::simulate::cublas {
namespace {

// BLAS's magnitude of a complex number: what amax and asum go by.
template <class S>
double magnitude(S x) {
  if constexpr (kIsComplex<S>)
    return std::abs(static_cast<double>(x.real())) + std::abs(static_cast<double>(x.imag()));
  else
    return std::abs(static_cast<double>(x));
}

Precision precision_of_both(const Strided& x, const Strided& y) {
  return wider(precision_of(x.type), precision_of(y.type));
}

bool is_nothing(const Strided& x) {
  return x.count <= 0;
}

constexpr cublasStatus_t kDone = CUBLAS_STATUS_SUCCESS;

using Five = std::array<double, 5>;

Five read_five(const void* from, cudaDataType type, bool of_device) {
  Five found;
  if (of_device) library::reads(from, 5 * bytes_of(type));
  get(type, from, 1, 5, found.data());
  return found;
}

// Of Lawson, Hanson, Kincaid and Krogh's modified Givens rotation (ACM TOMS 5, 1979): flag, then the matrix by columns.
struct ModifiedRotation {
  double d1, d2, x, flag = 0, h11 = 0, h21 = 0, h12 = 0, h22 = 0;

  void leave() {
    flag = -1;
    h11 = h21 = h12 = h22 = d1 = d2 = x = 0;
  }
  void make_full() {
    if (flag == 0) h11 = h22 = 1;
    if (flag > 0) h21 = -1, h12 = 1;
    flag = -1;
  }
  // Keeps d within bounds whose squares are no overflow.
  void rescale() {
    constexpr double kGamma = 4096, kLargest = kGamma * kGamma, kSmallest = 1 / kLargest;
    while (d1 != 0 && (d1 <= kSmallest || d1 >= kLargest)) {
      make_full();
      const double by = d1 <= kSmallest ? kGamma : 1 / kGamma;
      d1 *= by * by;
      x /= by, h11 /= by, h12 /= by;
    }
    while (d2 != 0 && (std::abs(d2) <= kSmallest || std::abs(d2) >= kLargest)) {
      make_full();
      const double by = std::abs(d2) <= kSmallest ? kGamma : 1 / kGamma;
      d2 *= by * by;
      h21 /= by, h22 /= by;
    }
  }
  void make(double y) {
    if (d1 < 0) return leave();
    const double p2 = d2 * y;
    if (p2 == 0) {
      flag = -2;
      return;
    }
    const double p1 = d1 * x, q2 = p2 * y, q1 = p1 * x;
    if (std::abs(q1) > std::abs(q2)) {
      h21 = -y / x, h12 = p2 / p1;
      const double u = 1 - h12 * h21;
      if (u <= 0) return leave();
      flag = 0;
      d1 /= u, d2 /= u, x *= u;
    } else {
      if (q2 < 0) return leave();
      flag = 1;
      h11 = p1 / p2, h22 = x / y;
      const double u = 1 + h11 * h22, first = d2 / u;
      d2 = d1 / u, d1 = first, x = y * u;
    }
    rescale();
  }
};

}  // namespace

cublasStatus_t scale(const Call& call, Strided x, Scalar alpha) {
  if (is_nothing(x) || x.step <= 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(x.type), [&](auto s) {
      using S = decltype(s);
      const S by = alpha.value<S>();
      write<S>(x, read<S>(x).unaryExpr([&](S each) { return by * each; }));
    });
  });
}

cublasStatus_t add(const Call& call, Strided x, Strided y, Scalar alpha) {
  if (is_nothing(x)) return kDone;
  return compute(call, [=] {
    in_precision(precision_of_both(x, y), [&](auto s) {
      using S = decltype(s);
      write<S>(y, read<S>(y) + alpha.value<S>() * read<S>(x));
    });
  });
}

cublasStatus_t copy(const Call& call, Strided x, Strided y) {
  if (is_nothing(x)) return kDone;
  return compute(call, [=] { in_precision(precision_of_both(x, y), [&](auto s) { write(y, read<decltype(s)>(x)); }); });
}

cublasStatus_t swap(const Call& call, Strided x, Strided y) {
  if (is_nothing(x)) return kDone;
  return compute(call, [=] {
    in_precision(precision_of_both(x, y), [&](auto s) {
      const auto first = read<decltype(s)>(x), second = read<decltype(s)>(y);
      write(x, second);
      write(y, first);
    });
  });
}

// Sums are taken in double precision.
cublasStatus_t dot(const Call& call, Strided x, Strided y, bool conjugated, Result result) {
  return compute_result(call, [=] {
    const bool complex = wider(precision_of(x.type), Precision::real64) == Precision::complex64;
    in_precision(complex ? Precision::complex64 : Precision::real64, [&](auto s) {
      using S = decltype(s);
      const Vector<S> first = read<S>(x), second = read<S>(y);
      S sum = 0;
      for (int64_t i = 0; i < x.count; ++i) sum += (conjugated ? conjugate(first[i]) : first[i]) * second[i];
      result.set(sum);
    });
  });
}

cublasStatus_t euclidean_norm(const Call& call, Strided x, Result result) {
  return compute_result(call, [=] {
    in_precision(wider(precision_of(x.type), Precision::real64), [&](auto s) {
      using S = decltype(s);
      result.set(x.count > 0 && x.step > 0 ? static_cast<double>(read<S>(x).stableNorm()) : 0.0);
    });
  });
}

cublasStatus_t sum_of_magnitudes(const Call& call, Strided x, Result result) {
  return compute_result(call, [=] {
    in_precision(precision_of(x.type), [&](auto s) {
      using S = decltype(s);
      double sum = 0;
      if (x.count > 0 && x.step > 0)
        for (const S each : read<S>(x)) sum += magnitude(each);
      result.set(sum);
    });
  });
}

cublasStatus_t extreme(const Call& call, Strided x, bool largest, void* result, size_t bytes) {
  return compute_result(call, [=, of_device = call.on_device()] {
    int64_t found = 0;
    in_precision(precision_of(x.type), [&](auto s) {
      using S = decltype(s);
      if (x.count <= 0 || x.step <= 0) return;
      const Vector<S> values = read<S>(x);
      const auto less = [](S a, S b) { return magnitude(a) < magnitude(b); };
      found = 1 +
              (largest ? std::max_element(values.begin(), values.end(), less)
                       : std::min_element(values.begin(), values.end(), less)) -
              values.begin();
    });
    if (of_device) library::writes(result, bytes);
    std::memcpy(result, &found, bytes);
  });
}

cublasStatus_t rotate(const Call& call, Strided x, Strided y, Scalar c, Scalar s) {
  if (is_nothing(x)) return kDone;
  return compute(call, [=] {
    in_precision(precision_of_both(x, y), [&](auto kind) {
      using S = decltype(kind);
      const S cosine = c.value<S>(), sine = s.value<S>();
      const Vector<S> first = read<S>(x), second = read<S>(y);
      write<S>(x, cosine * first + sine * second);
      write<S>(y, cosine * second - conjugate(sine) * first);
    });
  });
}

cublasStatus_t make_rotation(const Call& call, Result a, Result b, Result c, Result s) {
  return compute_result(call, [=] {
    if (precision_of(a.type) == Precision::complex32 || precision_of(a.type) == Precision::complex64) {
      const auto first = a.value<Complex64>(), second = b.value<Complex64>();
      if (first == 0.0) {
        a.set(second), c.set(0.0), s.set(Complex64(1));
        return;
      }
      const double norm = std::hypot(std::abs(first), std::abs(second));
      const Complex64 direction = first / std::abs(first);
      c.set(std::abs(first) / norm), s.set(direction * std::conj(second) / norm), a.set(direction * norm);
      return;
    }
    const auto first = a.value<double>(), second = b.value<double>();
    const double larger = std::abs(first) > std::abs(second) ? first : second;
    const double r = std::copysign(std::hypot(first, second), larger);
    const double cosine = r == 0 ? 1 : first / r, sine = r == 0 ? 0 : second / r;
    // What stands for both in one number.
    const double z = std::abs(first) > std::abs(second) ? sine : cosine != 0 ? 1 / cosine : 1;
    a.set(r), b.set(r == 0 ? 0.0 : z), c.set(cosine), s.set(sine);
  });
}

cublasStatus_t rotate_modified(const Call& call, Strided x, Strided y, const void* parameters, cudaDataType type) {
  if (is_nothing(x)) return kDone;
  Five given = {};
  if (!call.on_device()) given = read_five(parameters, type, false);
  return compute(call, [=, of_device = call.on_device()] {
    auto [flag, h11, h21, h12, h22] = of_device ? read_five(parameters, type, true) : given;
    if (flag == -2) return;
    if (flag == 0) h11 = h22 = 1;
    if (flag == 1) h12 = 1, h21 = -1;
    const Vector<double> first = read<double>(x), second = read<double>(y);
    write<double>(x, h11 * first + h12 * second);
    write<double>(y, h21 * first + h22 * second);
  });
}

cublasStatus_t make_modified_rotation(const Call& call, Result d1, Result d2, Result x, Scalar y, void* parameters,
                                      cudaDataType type) {
  return compute_result(call, [=] {
    ModifiedRotation made{d1.value<double>(), d2.value<double>(), x.value<double>()};
    made.make(y.value<double>());
    const Five five = {made.flag, made.h11, made.h21, made.h12, made.h22};
    if (d1.of_device) library::writes(parameters, 5 * bytes_of(type));
    put(type, parameters, 1, 5, five.data());
    d1.set(made.d1), d2.set(made.d2), x.set(made.x);
  });
}

}  // namespace devtrace::simulate::cublas

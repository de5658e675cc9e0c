// Products: gemm and gemv in all their forms, symmetric ones, and sums of matrices.
#include "simulate/cublas/storage.h"

namespace devtrace::simulate::cublas {
namespace {

constexpr cublasStatus_t kDone = CUBLAS_STATUS_SUCCESS;

// Shapes and distances as the libraries ask for them.
bool is_wrong(const Dense& m) {
  return m.rows < 0 || m.columns < 0 || m.stride < std::max<int64_t>(1, m.rows);
}

Precision precision_of_all(std::initializer_list<cudaDataType> types) {
  Precision kind = Precision::real32;
  for (const cudaDataType type : types) kind = wider(kind, precision_of(type));
  return kind;
}

bool are_known(std::initializer_list<cudaDataType> types) {
  return std::all_of(types.begin(), types.end(), is_known);
}

const void* in_table(const void* table, int64_t i) {
  const auto* const place = static_cast<const void* const*>(table) + i;
  library::reads(place, sizeof *place);
  return *place;
}

// beta c; c is not read where beta is zero.
template <class S>
Matrix<S> scaled(const Dense& c, S beta) {
  if (beta == S(0)) return Matrix<S>::Zero(c.rows, c.columns);
  return beta * read<S>(c);
}

template <class S>
Vector<S> scaled(const Strided& y, S beta) {
  if (beta == S(0)) return Vector<S>::Zero(y.count);
  return beta * read<S>(y);
}

}  // namespace

Dense Many::nth(int64_t i) const {
  Dense found = one;
  found.data = is_table ? in_table(one.data, i) : at(one.type, one.data, i * distance);
  return found;
}

Strided Vectors::nth(int64_t i) const {
  Strided found = one;
  found.data = is_table ? in_table(one.data, i) : at(one.type, one.data, i * distance);
  return found;
}

cublasStatus_t multiply(const Call& call, Operation on_a, Operation on_b, Many a, Many b, Many c, Scalar alpha,
                        Scalar beta, int64_t count) {
  if (count < 0 || is_wrong(a.one) || is_wrong(b.one) || is_wrong(c.one)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!are_known({a.one.type, b.one.type, c.one.type})) return record(call);
  if (count == 0 || c.one.rows == 0 || c.one.columns == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of_all({a.one.type, b.one.type, c.one.type}), [&](auto s) {
      using S = decltype(s);
      const S by = alpha.value<S>(), keep = beta.value<S>();
      for (int64_t i = 0; i < count; ++i) {
        const Dense result = c.nth(i);
        Matrix<S> sum = scaled<S>(result, keep);
        if (by != S(0)) {
          Matrix<S> first = operated(on_a, read<S>(a.nth(i)));
          if (by != S(1)) first *= by;
          sum.noalias() += first * operated(on_b, read<S>(b.nth(i)));
        }
        write(result, sum);
      }
    });
  });
}

cublasStatus_t multiply(const Call& call, Operation on_a, Many a, Vectors x, Vectors y, Scalar alpha, Scalar beta,
                        int64_t count) {
  if (count < 0 || is_wrong(a.one) || x.one.step == 0 || y.one.step == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (count == 0 || y.one.count == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of_all({a.one.type, x.one.type, y.one.type}), [&](auto s) {
      using S = decltype(s);
      const S by = alpha.value<S>(), keep = beta.value<S>();
      for (int64_t i = 0; i < count; ++i) {
        const Strided result = y.nth(i);
        Vector<S> sum = scaled<S>(result, keep);
        if (by != S(0)) sum += by * (operated(on_a, read<S>(a.nth(i))) * read<S>(x.nth(i)));
        write(result, sum);
      }
    });
  });
}

cublasStatus_t multiply_band(const Call& call, Operation on_a, Dense a, int64_t below, int64_t above, Strided x,
                             Strided y, Scalar alpha, Scalar beta) {
  if (a.rows < 0 || a.columns < 0 || below < 0 || above < 0 || a.stride <= below + above || !x.step || !y.step)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (y.count == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      Matrix<S> band = Matrix<S>::Zero(a.rows, a.columns);
      for (int64_t j = 0; j < a.columns; ++j) {
        const int64_t first = std::max<int64_t>(0, j - above), end = std::min(a.rows, j + below + 1);
        if (first >= end) continue;
        const uint8_t* const from = at(a.type, a.data, j * a.stride + above + first - j);
        library::reads(from, static_cast<size_t>(end - first) * bytes_of(a.type));
        get(a.type, from, 1, end - first, band.col(j).data() + first);
      }
      const S by = alpha.value<S>();
      Vector<S> sum = scaled<S>(y, beta.value<S>());
      sum += by * (operated(on_a, band) * read<S>(x));
      write(y, sum);
    });
  });
}

cublasStatus_t multiply_symmetric(const Call& call, Square a, Symmetry symmetry, Strided x, Strided y, Scalar alpha,
                                  Scalar beta) {
  if (a.order < 0 || !x.step || !y.step) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.order == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      const S by = alpha.value<S>();
      Vector<S> sum = scaled<S>(y, beta.value<S>());
      sum += by * (read_mirrored<S>(a, symmetry) * read<S>(x));
      write(y, sum);
    });
  });
}

cublasStatus_t multiply_symmetric(const Call& call, Square a, Symmetry symmetry, bool from_left, Dense b, Dense c,
                                  Scalar alpha, Scalar beta) {
  if (a.order < 0 || is_wrong(b) || is_wrong(c)) return CUBLAS_STATUS_INVALID_VALUE;
  if (c.rows == 0 || c.columns == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      const Matrix<S> whole = alpha.value<S>() * read_mirrored<S>(a, symmetry), other = read<S>(b);
      Matrix<S> sum = scaled<S>(c, beta.value<S>());
      if (from_left)
        sum.noalias() += whole * other;
      else
        sum.noalias() += other * whole;
      write(c, sum);
    });
  });
}

cublasStatus_t add(const Call& call, Operation on_a, Operation on_b, Dense a, Dense b, Dense c, Scalar alpha,
                   Scalar beta) {
  if (is_wrong(c)) return CUBLAS_STATUS_INVALID_VALUE;
  if (c.rows == 0 || c.columns == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(c.type), [&](auto s) {
      using S = decltype(s);
      const S first = alpha.value<S>(), second = beta.value<S>();
      Matrix<S> sum = Matrix<S>::Zero(c.rows, c.columns);
      if (first != S(0)) sum += first * operated(on_a, read<S>(a));
      if (second != S(0)) sum += second * operated(on_b, read<S>(b));
      write(c, sum);
    });
  });
}

cublasStatus_t multiply_diagonal(const Call& call, bool from_left, Dense a, Strided x, Dense c) {
  if (is_wrong(a) || is_wrong(c)) return CUBLAS_STATUS_INVALID_VALUE;
  if (c.rows == 0 || c.columns == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      const Vector<S> diagonal = read<S>(x);
      const Matrix<S> given = read<S>(a);
      write<S>(c, from_left ? Matrix<S>(diagonal.asDiagonal() * given) : Matrix<S>(given * diagonal.asDiagonal()));
    });
  });
}

}  // namespace devtrace::simulate::cublas

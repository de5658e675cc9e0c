// Triangular matrices, and updates of symmetric ones.
#include <eigen3/Eigen/Dense>

#include "simulate/cublas/storage.h"

namespace devtrace::simulate::cublas {
namespace {

constexpr cublasStatus_t kDone = CUBLAS_STATUS_SUCCESS;

// x of op(a) x = b; `lower`: op(a) is.
template <class S>
void solve(const Matrix<S>& a, bool lower, Matrix<S>& b) {
  if (lower)
    a.template triangularView<Eigen::Lower>().solveInPlace(b);
  else
    a.template triangularView<Eigen::Upper>().solveInPlace(b);
}

bool becomes_lower(Fill fill, Operation operation) {
  const bool turned = operation == Operation::transposed || operation == Operation::adjoint;
  return (fill == Fill::lower) != turned;
}

template <class S>
void make_diagonal_real(Matrix<S>& m) {
  if constexpr (kIsComplex<S>)
    for (int64_t i = 0; i < m.rows(); ++i) m(i, i) = S(m(i, i).real());
}

// sum += alpha x op(y) and, with `twice`, its transpose.
template <class S>
void add_product(Matrix<S>& sum, const Matrix<S>& x, const Matrix<S>& y, Symmetry symmetry, bool twice, S alpha) {
  const bool hermitian = symmetry == Symmetry::hermitian;
  Matrix<S> product = hermitian ? Matrix<S>(x * y.adjoint()) : Matrix<S>(x * y.transpose());
  product *= alpha;
  sum += product;
  if (twice) sum += hermitian ? Matrix<S>(product.adjoint()) : Matrix<S>(product.transpose());
  if (hermitian) make_diagonal_real(sum);
}

template <class S>
void add_to(const Square& a, Symmetry symmetry, const Strided& x, const Strided& y, bool twice, S alpha) {
  Matrix<S> sum = read<S>(a);
  add_product<S>(sum, read<S>(x), read<S>(y), symmetry, twice, alpha);
  write(a, sum);
}

bool is_wrong(const Square& a) {
  return a.order < 0 || (a.form == Square::full && a.stride < std::max<int64_t>(1, a.order)) ||
         (a.form == Square::band && a.stride <= a.diagonals);
}

}  // namespace

cublasStatus_t triangular(const Call& call, Square a, Operation on_a, bool unit_diagonal, Strided x, bool invert) {
  if (is_wrong(a) || x.step == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.order == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      const Matrix<S> triangle = operated(on_a, read_triangle<S>(a, unit_diagonal));
      Matrix<S> vector = read<S>(x);
      if (invert)
        solve(triangle, becomes_lower(a.fill, on_a), vector);
      else
        vector = triangle * vector;
      write<S>(x, vector);
    });
  });
}

cublasStatus_t multiply_triangular(const Call& call, Square a, Operation on_a, bool unit_diagonal, bool from_left,
                                   Dense b, Dense c, Scalar alpha) {
  if (is_wrong(a)) return CUBLAS_STATUS_INVALID_VALUE;
  if (c.rows <= 0 || c.columns <= 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      const Matrix<S> triangle = alpha.value<S>() * operated(on_a, read_triangle<S>(a, unit_diagonal));
      const Matrix<S> other = read<S>(b);
      write<S>(c, from_left ? Matrix<S>(triangle * other) : Matrix<S>(other * triangle));
    });
  });
}

cublasStatus_t solve_triangular(const Call& call, Many a, Fill fill, Operation on_a, bool unit_diagonal, bool from_left,
                                Many b, Scalar alpha, int64_t count) {
  if (count < 0 || b.one.rows < 0 || b.one.columns < 0 || b.one.stride < std::max<int64_t>(1, b.one.rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (count == 0 || b.one.rows == 0 || b.one.columns == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      const S by = alpha.value<S>();
      for (int64_t i = 0; i < count; ++i) {
        const Dense matrix = a.nth(i), place = b.nth(i);
        const Square stored = {matrix.type, matrix.data, matrix.rows, fill, Square::full, matrix.stride};
        const Matrix<S> triangle = operated(on_a, read_triangle<S>(stored, unit_diagonal));
        Matrix<S> x = by * read<S>(place);
        const bool lower = becomes_lower(fill, on_a);
        if (from_left) {
          solve(triangle, lower, x);
        } else {
          Matrix<S> turned = x.transpose();
          solve<S>(triangle.transpose(), !lower, turned);
          x = turned.transpose();
        }
        write(place, x);
      }
    });
  });
}

cublasStatus_t rank_one(const Call& call, Dense a, Strided x, Strided y, bool conjugated, Scalar alpha) {
  if (a.rows < 0 || a.columns < 0 || a.stride < std::max<int64_t>(1, a.rows) || !x.step || !y.step)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (a.rows == 0 || a.columns == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) {
      using S = decltype(s);
      Matrix<S> sum = read<S>(a);
      const Vector<S> first = alpha.value<S>() * read<S>(x), second = read<S>(y);
      if (conjugated)
        sum += first * second.adjoint();
      else
        sum += first * second.transpose();
      write(a, sum);
    });
  });
}

cublasStatus_t update(const Call& call, Square a, Symmetry symmetry, Strided x, Scalar alpha) {
  if (is_wrong(a) || !x.step) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.order == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) { add_to(a, symmetry, x, x, false, alpha.value<decltype(s)>()); });
  });
}

cublasStatus_t update(const Call& call, Square a, Symmetry symmetry, Strided x, Strided y, Scalar alpha) {
  if (is_wrong(a) || !x.step || !y.step) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.order == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(a.type), [&](auto s) { add_to(a, symmetry, x, y, true, alpha.value<decltype(s)>()); });
  });
}

cublasStatus_t update(const Call& call, Square c, Symmetry symmetry, Operation on_both, Dense a, Dense b, bool twice,
                      Scalar alpha, Scalar beta) {
  if (is_wrong(c) || a.rows < 0 || a.columns < 0 || a.stride < std::max<int64_t>(1, a.rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (c.order == 0) return kDone;
  return compute(call, [=] {
    in_precision(precision_of(c.type), [&](auto s) {
      using S = decltype(s);
      const S keep = beta.value<S>();
      Matrix<S> sum = Matrix<S>::Zero(c.order, c.order);
      if (keep != S(0)) sum = keep * read<S>(c);
      add_product<S>(sum, operated(on_both, read<S>(a)), operated(on_both, read<S>(b)), symmetry, twice,
                     alpha.value<S>());
      write(c, sum);
    });
  });
}

cublasStatus_t copy(const Call& call, Square from, Square to) {
  if (is_wrong(from) || is_wrong(to)) return CUBLAS_STATUS_INVALID_VALUE;
  if (from.order == 0) return kDone;
  return compute(call,
                 [=] { in_precision(precision_of(from.type), [&](auto s) { write(to, read<decltype(s)>(from)); }); });
}

}  // namespace devtrace::simulate::cublas

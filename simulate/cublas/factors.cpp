#include "simulate/cublas/factors.h"

#include <vector>

#include "simulate/numbers/factors.h"

namespace devtrace::simulate::cublas {
namespace {

bool is_wrong(const Many& m, int64_t count) {
  return count < 0 || m.one.rows < 0 || m.one.columns < 0 || m.one.stride < std::max<int64_t>(1, m.one.rows);
}

// So many numbers that lie on the device; none where nobody wants them.
void put(int* to, int64_t i, const std::vector<int>& values) {
  if (!to || values.empty()) return;
  int* const place = to + i * static_cast<int64_t>(values.size());
  library::writes(place, values.size() * sizeof(int));
  std::copy(values.begin(), values.end(), place);
}

std::vector<int> pivots_at(const int* from, int64_t i, int64_t order) {
  if (!from) return {};
  const int* const place = from + i * order;
  library::reads(place, static_cast<size_t>(order) * sizeof(int));
  return {place, place + order};
}

const int* or_none(const std::vector<int>& pivots) {
  return pivots.empty() ? nullptr : pivots.data();
}

// What a rehearsal that computes nothing says: that all is well.
cublasStatus_t compute(const Call& call, int* info, int64_t count, std::function<void()> work) {
  if (!library::calculates()) library::succeed(info, count);
  return cublas::compute(call, std::move(work));
}

// The number on the diagonal of U that is zero, from 1, else 0.
template <class S>
int first_zero(const Matrix<S>& factors) {
  for (int64_t i = 0; i < factors.rows(); ++i)
    if (factors(i, i) == S(0)) return static_cast<int>(i + 1);
  return 0;
}

template <class S>
Matrix<S> inverse_of(const Matrix<S>& factors, const int* pivots) {
  Matrix<S> inverse = Matrix<S>::Identity(factors.rows(), factors.cols());
  solve_lu(factors, pivots, Operation::none, inverse);
  return inverse;
}

}  // namespace

cublasStatus_t factorise(const Call& call, Many a, int* pivots, int* info, int64_t count) {
  if (is_wrong(a, count)) return CUBLAS_STATUS_INVALID_VALUE;
  return compute(call, info, count, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      for (int64_t i = 0; i < count; ++i) {
        const Dense place = a.nth(i);
        Matrix<S> matrix = read<S>(place);
        std::vector<int> exchanged(pivots ? static_cast<size_t>(a.one.rows) : 0);
        const int zero = factorise_lu(matrix, pivots ? exchanged.data() : nullptr);
        write(place, matrix);
        put(pivots, i, exchanged);
        put(info, i, {zero});
      }
    });
  });
}

cublasStatus_t invert_factors(const Call& call, Many a, const int* pivots, Many inverse, int* info, int64_t count) {
  if (is_wrong(a, count) || is_wrong(inverse, count)) return CUBLAS_STATUS_INVALID_VALUE;
  return compute(call, info, count, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      for (int64_t i = 0; i < count; ++i) {
        const Matrix<S> factors = read<S>(a.nth(i));
        const int zero = first_zero(factors);
        if (!zero) write(inverse.nth(i), inverse_of(factors, or_none(pivots_at(pivots, i, a.one.rows))));
        put(info, i, {zero});
      }
    });
  });
}

cublasStatus_t solve_factors(const Call& call, Operation on_a, Many a, const int* pivots, Many b, int* info,
                             int64_t count) {
  if (is_wrong(a, count) || is_wrong(b, count)) return CUBLAS_STATUS_INVALID_VALUE;
  if (info) *info = 0;
  return cublas::compute(call, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      for (int64_t i = 0; i < count; ++i) {
        const Dense place = b.nth(i);
        Matrix<S> x = read<S>(place);
        solve_lu<S>(read<S>(a.nth(i)), or_none(pivots_at(pivots, i, a.one.rows)), on_a, x);
        write(place, x);
      }
    });
  });
}

cublasStatus_t invert(const Call& call, Many a, Many inverse, int* info, int64_t count) {
  if (is_wrong(a, count) || is_wrong(inverse, count)) return CUBLAS_STATUS_INVALID_VALUE;
  return compute(call, info, count, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      for (int64_t i = 0; i < count; ++i) {
        Matrix<S> factors = read<S>(a.nth(i));
        std::vector<int> pivots(static_cast<size_t>(a.one.rows));
        const int zero = factorise_lu(factors, pivots.data());
        if (!zero) write(inverse.nth(i), inverse_of(factors, pivots.data()));
        put(info, i, {zero});
      }
    });
  });
}

cublasStatus_t orthogonalise(const Call& call, Many a, Many tau, int* info, int64_t count) {
  if (is_wrong(a, count)) return CUBLAS_STATUS_INVALID_VALUE;
  if (info) *info = 0;
  return cublas::compute(call, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      for (int64_t i = 0; i < count; ++i) {
        const Dense place = a.nth(i);
        Matrix<S> matrix = read<S>(place);
        Vector<S> factors;
        factorise_qr(matrix, factors);
        write(place, matrix);
        write<S>(tau.nth(i), factors);
      }
    });
  });
}

cublasStatus_t least_squares(const Call& call, cublasOperation_t on_a, Many a, Many c, int* info, int* infos,
                             int64_t count) {
  if (is_wrong(a, count)) return CUBLAS_STATUS_INVALID_VALUE;
  if (on_a != CUBLAS_OP_N || a.one.rows < a.one.columns) return CUBLAS_STATUS_NOT_SUPPORTED;  // as cuBLAS
  if (info) *info = 0;
  return compute(call, infos, count, [=] {
    in_precision(precision_of(a.one.type), [&](auto s) {
      using S = decltype(s);
      for (int64_t i = 0; i < count; ++i) {
        const Dense place = a.nth(i), right = c.nth(i);
        Matrix<S> matrix = read<S>(place), x = read<S>(right);
        Vector<S> tau;
        factorise_qr(matrix, tau);
        multiply_q(matrix, tau, Operation::adjoint, true, x);
        const Matrix<S> r = matrix.topRows(a.one.columns);
        const int zero = first_zero(r);
        Matrix<S> top = x.topRows(a.one.columns);
        if (!zero) solve_lu<S>(r.template triangularView<Eigen::Upper>(), nullptr, Operation::none, top);
        x.topRows(a.one.columns) = top;
        write(place, matrix);
        write(right, x);
        put(infos, i, {zero});
      }
    });
  });
}

}  // namespace devtrace::simulate::cublas

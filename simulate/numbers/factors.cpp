#include "simulate/numbers/factors.h"

#include <cmath>
#include <eigen3/Eigen/Dense>

namespace devtrace::simulate::numbers {
namespace {

// Rows as the factorisation has exchanged them, or back.
template <class S>
void exchange(Matrix<S>& b, const int* pivots, int64_t count, bool back) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = back ? count - 1 - i : i, other = pivots[row] - 1;
    if (other != row && other >= 0 && other < b.rows()) b.row(row).swap(b.row(other));
  }
}

}  // namespace

template <class S>
int factorise_lu(Matrix<S>& a, int* pivots) {
  const int64_t steps = std::min(a.rows(), a.cols());
  int first_zero = 0;
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t below = a.rows() - k - 1, right = a.cols() - k - 1;
    if (pivots) {
      int64_t row = 0;
      a.col(k).tail(below + 1).cwiseAbs().maxCoeff(&row);
      pivots[k] = static_cast<int>(k + row + 1);
      if (row) a.row(k).swap(a.row(k + row));
    }
    if (a(k, k) == S(0)) {
      if (!first_zero) first_zero = static_cast<int>(k + 1);
      continue;
    }
    a.col(k).tail(below) /= a(k, k);
    a.bottomRightCorner(below, right).noalias() -= a.col(k).tail(below) * a.row(k).tail(right);
  }
  return first_zero;
}

template <class S>
void solve_lu(const Matrix<S>& factors, const int* pivots, Operation on_a, Matrix<S>& b) {
  const auto lower = factors.template triangularView<Eigen::UnitLower>();
  const auto upper = factors.template triangularView<Eigen::Upper>();
  const int64_t n = factors.rows();
  if (on_a == Operation::none) {
    if (pivots) exchange(b, pivots, n, false);
    lower.solveInPlace(b);
    upper.solveInPlace(b);
    return;
  }
  if (on_a == Operation::transposed) {
    upper.transpose().solveInPlace(b);
    lower.transpose().solveInPlace(b);
  } else {
    upper.adjoint().solveInPlace(b);
    lower.adjoint().solveInPlace(b);
  }
  if (pivots) exchange(b, pivots, n, true);
}

template <class S>
int factorise_cholesky(Matrix<S>& a, Fill fill) {
  const bool lower = fill == Fill::lower;
  if (!lower) a = Matrix<S>(a.adjoint());
  int failed = 0;
  for (int64_t k = 0; k < a.rows() && !failed; ++k) {
    const int64_t below = a.rows() - k - 1;
    const auto row = a.row(k).head(k);
    const auto left = std::real(a(k, k)) - row.squaredNorm();
    if (!(left > 0)) {
      failed = static_cast<int>(k + 1);
      break;
    }
    const auto root = std::sqrt(left);
    a(k, k) = S(root);
    if (k) a.col(k).tail(below).noalias() -= a.bottomLeftCorner(below, k) * row.adjoint();
    a.col(k).tail(below) /= S(root);
  }
  if (!lower) a = Matrix<S>(a.adjoint());
  return failed;
}

template <class S>
void solve_cholesky(const Matrix<S>& factor, Fill fill, Matrix<S>& b) {
  if (fill == Fill::lower) {
    factor.template triangularView<Eigen::Lower>().solveInPlace(b);
    factor.template triangularView<Eigen::Lower>().adjoint().solveInPlace(b);
  } else {
    factor.template triangularView<Eigen::Upper>().adjoint().solveInPlace(b);
    factor.template triangularView<Eigen::Upper>().solveInPlace(b);
  }
}

// Eigen's reflector is the adjoint of LAPACK's.
template <class S>
void factorise_qr(Matrix<S>& a, Vector<S>& tau) {
  const Eigen::HouseholderQR<Matrix<S>> qr(a);
  a = qr.matrixQR();
  tau = qr.hCoeffs().conjugate();
}

template <class S>
void multiply_q(const Matrix<S>& reflectors, const Vector<S>& tau, Operation on_q, bool from_left, Matrix<S>& c) {
  const int64_t count = tau.size(), n = reflectors.rows();
  const bool turned = on_q != Operation::none;
  for (int64_t i = 0; i < count; ++i) {
    // Q = H1 H2 …: from the left the last one comes first.
    const int64_t k = turned == from_left ? i : count - 1 - i;
    Vector<S> v = Vector<S>::Zero(n);
    v[k] = 1;
    v.tail(n - k - 1) = reflectors.col(k).tail(n - k - 1);
    const S by = turned ? conjugate(tau[k]) : tau[k];
    if (from_left)
      c -= by * v * (v.adjoint() * c).eval();
    else
      c -= (c * v).eval() * (by * v.adjoint());
  }
}

#define FOR_PRECISION(S)                                                          \
  template int factorise_lu<S>(Matrix<S>&, int*);                                 \
  template void solve_lu<S>(const Matrix<S>&, const int*, Operation, Matrix<S>&); \
  template int factorise_cholesky<S>(Matrix<S>&, Fill);                           \
  template void solve_cholesky<S>(const Matrix<S>&, Fill, Matrix<S>&);            \
  template void factorise_qr<S>(Matrix<S>&, Vector<S>&);                          \
  template void multiply_q<S>(const Matrix<S>&, const Vector<S>&, Operation, bool, Matrix<S>&);
FOR_PRECISION(float)
FOR_PRECISION(double)
FOR_PRECISION(Complex32)
FOR_PRECISION(Complex64)
#undef FOR_PRECISION

}  // namespace devtrace::simulate::numbers

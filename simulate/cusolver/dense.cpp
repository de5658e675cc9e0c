#include "simulate/cusolver/dense.h"

#include <eigen3/Eigen/Eigenvalues>
#include <eigen3/Eigen/SVD>
#include <vector>

#include "simulate/cusolver/compute.h"
#include "simulate/numbers/factors.h"

namespace devtrace::simulate::cusolver {
namespace {

std::vector<int> read(const Pivots& pivots, int64_t count) {
  std::vector<int> all;
  if (!pivots.data) return all;
  library::reads(pivots.data, static_cast<size_t>(count) * pivots.bytes_of_one);
  for (int64_t i = 0; i < count; ++i)
    all.push_back(pivots.bytes_of_one == sizeof(int) ? static_cast<const int*>(pivots.data)[i]
                                                     : static_cast<int>(static_cast<const int64_t*>(pivots.data)[i]));
  return all;
}

void write(const Pivots& pivots, const std::vector<int>& all) {
  if (!pivots.data || all.empty()) return;
  library::writes(pivots.data, all.size() * pivots.bytes_of_one);
  for (size_t i = 0; i < all.size(); ++i) {
    if (pivots.bytes_of_one == sizeof(int))
      static_cast<int*>(pivots.data)[i] = all[i];
    else
      static_cast<int64_t*>(pivots.data)[i] = all[i];
  }
}

Dense nth(Dense m, int64_t i) {
  const auto* const place = static_cast<const void* const*>(m.data) + i;
  library::reads(place, sizeof *place);
  m.data = *place;
  return m;
}

Strided tau_at(cudaDataType type, const void* tau, int64_t count) {
  return {type, tau, count, 1};
}

}  // namespace

cusolverStatus_t factorise_lu(const Call& call, Dense a, Pivots pivots, int* info) {
  if (is_wrong(a)) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(a.type), [=](auto s) {
    auto matrix = numbers::read<decltype(s)>(a);
    std::vector<int> exchanged(pivots.data ? static_cast<size_t>(std::min(a.rows, a.columns)) : 0);
    const int zero = numbers::factorise_lu(matrix, pivots.data ? exchanged.data() : nullptr);
    numbers::write(a, matrix);
    write(pivots, exchanged);
    put(info, 0, zero);
  });
}

cusolverStatus_t solve_lu(const Call& call, Operation on_a, Dense a, Pivots pivots, Dense b, int* info) {
  if (is_wrong(a) || is_wrong(b)) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(a.type), [=](auto s) {
    auto x = numbers::read<decltype(s)>(b);
    const std::vector<int> exchanged = read(pivots, a.rows);
    numbers::solve_lu(numbers::read<decltype(s)>(a), exchanged.empty() ? nullptr : exchanged.data(), on_a, x);
    numbers::write(b, x);
    put(info, 0, 0);
  });
}

cusolverStatus_t factorise_cholesky(const Call& call, Fill fill, Dense a, int64_t count, int* info) {
  if (is_wrong(a) || count < 0) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, std::max<int64_t>(1, count), precision_of(a.type), [=](auto s) {
    for (int64_t i = 0; i < std::max<int64_t>(1, count); ++i) {
      const Dense place = count ? nth(a, i) : a;
      auto matrix = numbers::read<decltype(s)>(place);
      const int failed = numbers::factorise_cholesky(matrix, fill);
      numbers::write(place, matrix, fill);
      put(info, i, failed);
    }
  });
}

cusolverStatus_t solve_cholesky(const Call& call, Fill fill, Dense a, Dense b, int64_t count, int* info) {
  if (is_wrong(a) || is_wrong(b) || count < 0) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(a.type), [=](auto s) {
    for (int64_t i = 0; i < std::max<int64_t>(1, count); ++i) {
      const Dense place = count ? nth(b, i) : b;
      auto x = numbers::read<decltype(s)>(place);
      numbers::solve_cholesky(numbers::read<decltype(s)>(count ? nth(a, i) : a), fill, x);
      numbers::write(place, x);
    }
    put(info, 0, 0);
  });
}

cusolverStatus_t invert_cholesky(const Call& call, Fill fill, Dense a, int* info) {
  if (is_wrong(a)) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(a.type), [=](auto s) {
    using S = decltype(s);
    Matrix<S> inverse = Matrix<S>::Identity(a.rows, a.rows);
    numbers::solve_cholesky(numbers::read<S>(a), fill, inverse);
    numbers::write(a, inverse, fill);
    put(info, 0, 0);
  });
}

cusolverStatus_t factorise_qr(const Call& call, Dense a, const void* tau, int* info) {
  if (is_wrong(a)) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(a.type), [=](auto s) {
    using S = decltype(s);
    Matrix<S> matrix = numbers::read<S>(a);
    Vector<S> factors;
    numbers::factorise_qr(matrix, factors);
    numbers::write(a, matrix);
    numbers::write(tau_at(a.type, tau, factors.size()), factors);
    put(info, 0, 0);
  });
}

cusolverStatus_t make_q(const Call& call, Dense a, int64_t count, const void* tau, int* info) {
  if (is_wrong(a) || count < 0 || count > a.columns) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(a.type), [=](auto s) {
    using S = decltype(s);
    Matrix<S> q = Matrix<S>::Identity(a.rows, a.columns);
    numbers::multiply_q(numbers::read<S>(a), numbers::read<S>(tau_at(a.type, tau, count)), Operation::none, true, q);
    numbers::write(a, q);
    put(info, 0, 0);
  });
}

cusolverStatus_t multiply_q(const Call& call, bool from_left, Operation on_q, Dense reflectors, const void* tau,
                            Dense c, int* info) {
  if (is_wrong(reflectors) || is_wrong(c)) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(call, info, 1, precision_of(c.type), [=](auto s) {
    using S = decltype(s);
    Matrix<S> matrix = numbers::read<S>(c);
    const Vector<S> factors = numbers::read<S>(tau_at(c.type, tau, reflectors.columns));
    numbers::multiply_q(numbers::read<S>(reflectors), factors, on_q, from_left, matrix);
    numbers::write(c, matrix);
    put(info, 0, 0);
  });
}

}  // namespace devtrace::simulate::cusolver

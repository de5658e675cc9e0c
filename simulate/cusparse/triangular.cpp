// Triangular matrices: what is solved by them, and incomplete factors.
#include <algorithm>
#include <utility>

#include "simulate/cusparse/stored.h"

namespace devtrace::simulate::cusparse {
namespace {

template <class S>
struct Rows {
  std::vector<std::vector<std::pair<int64_t, S>>> beside;  // the diagonal
  std::vector<S> diagonal;
};

// op(a), of which one side counts.
template <class S>
Rows<S> triangle(const Sparse& a, bool turned, bool conjugated) {
  Rows<S> rows{std::vector<std::vector<std::pair<int64_t, S>>>(static_cast<size_t>(a.rows)),
               std::vector<S>(static_cast<size_t>(a.rows), S(a.unit_diagonal))};
  for_each<S>(a, [&](int64_t row, int64_t column, S value) {
    const S kept = conjugated ? conjugate(value) : value;
    if (row == column) {
      if (!a.unit_diagonal) rows.diagonal[static_cast<size_t>(row)] = kept;
    } else if ((row > column) == (a.fill == Fill::lower)) {
      rows.beside[static_cast<size_t>(turned ? column : row)].emplace_back(turned ? row : column, kept);
    }
  });
  return rows;
}

cusparseStatus_t solve(const Call& call, cusparseOperation_t on_a, Operation on_b, Scalar alpha, const void* a,
                       const void* b, const void* c) {
  if (!library::alive(a) || !library::alive(b) || !library::alive(c)) return CUSPARSE_STATUS_INVALID_VALUE;
  const Sparse sparse = sparse_of(a);
  const Block right = dense_of(b), result = dense_of(c);
  if (sparse.rows != sparse.columns) return CUSPARSE_STATUS_INVALID_VALUE;
  if (!is_computed(sparse) || !is_known(right.stored.type))
    return library::launch_in_current(call.name, call.handle, call.memory) ? CUSPARSE_STATUS_EXECUTION_FAILED
                                                                           : CUSPARSE_STATUS_SUCCESS;
  const bool turned = on_a != CUSPARSE_OPERATION_NON_TRANSPOSE;
  const auto work = [=] {
    in_precision(precision_of(sparse.type), [&](auto s) {
      using S = decltype(s);
      const Rows<S> rows = triangle<S>(sparse, turned, on_a == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE);
      Matrix<S> x = alpha.template value<S>() * operated(on_b, read<S>(right));
      if (x.rows() != sparse.rows) library::give_up();
      const bool downwards = (sparse.fill == Fill::lower) != turned;
      for (int64_t i = 0; i < sparse.rows; ++i) {
        const int64_t row = downwards ? i : sparse.rows - 1 - i;
        for (const auto& [column, value] : rows.beside[static_cast<size_t>(row)]) x.row(row) -= value * x.row(column);
        x.row(row) /= rows.diagonal[static_cast<size_t>(row)];
      }
      write(result, x);
    });
  };
  return library::calculate_in_current(call.name, call.handle, call.memory, work) ? CUSPARSE_STATUS_EXECUTION_FAILED
                                                                                  : CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

cusparseStatus_t spsv(const Call& call, cusparseOperation_t on_a, const void* alpha, cusparseConstSpMatDescr_t a,
                      cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute, cusparseSpSVAlg_t,
                      cusparseSpSVDescr_t) {
  return solve(call, on_a, Operation::none, call.scalar(alpha, compute), a, x, y);
}

cusparseStatus_t spsm(const Call& call, cusparseOperation_t on_a, cusparseOperation_t on_b, const void* alpha,
                      cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c,
                      cudaDataType compute, cusparseSpSMAlg_t, cusparseSpSMDescr_t) {
  return solve(call, on_a, static_cast<Operation>(on_b), call.scalar(alpha, compute), a, b, c);
}

cusparseStatus_t incomplete_lu(const Call& call, int64_t rows, int64_t non_zeros, int64_t base, cudaDataType type,
                               void* values, const int* offsets, const int* indices) {
  if (rows < 0 || non_zeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  const auto work = [=] {
    in_precision(precision_of(type), [&](auto s) {
      using S = decltype(s);
      const auto begins = read_indices(offsets, CUSPARSE_INDEX_32I, rows + 1);
      const auto columns = read_indices(indices, CUSPARSE_INDEX_32I, non_zeros);
      const Strided place = {type, values, non_zeros, 1};
      Vector<S> a = numbers::read<S>(place);
      std::vector<int64_t> diagonal(static_cast<size_t>(rows), -1), at(static_cast<size_t>(rows), -1);
      const auto column = [&](int64_t k) {
        const int64_t found = columns[static_cast<size_t>(k)] - base;
        if (found < 0 || found >= rows) library::give_up();
        return static_cast<size_t>(found);
      };
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t begin = begins[static_cast<size_t>(i)] - base, end = begins[static_cast<size_t>(i) + 1] - base;
        if (begin < 0 || end > non_zeros) library::give_up();
        for (int64_t k = begin; k < end; ++k) at[column(k)] = k;
        for (int64_t k = begin; k < end; ++k) {
          const size_t j = column(k);
          if (static_cast<int64_t>(j) >= i || diagonal[j] < 0) continue;
          a[k] /= a[diagonal[j]];
          for (int64_t m = diagonal[j] + 1; m < begins[j + 1] - base; ++m)
            if (at[column(m)] >= 0) a[at[column(m)]] -= a[k] * a[m];
        }
        diagonal[static_cast<size_t>(i)] = at[static_cast<size_t>(i)];
        for (int64_t k = begin; k < end; ++k) at[column(k)] = -1;
      }
      numbers::write(place, a);
    });
  };
  return library::calculate_in_current(call.name, call.handle, call.memory, work) ? CUSPARSE_STATUS_EXECUTION_FAILED
                                                                                  : CUSPARSE_STATUS_SUCCESS;
}

}  // namespace devtrace::simulate::cusparse

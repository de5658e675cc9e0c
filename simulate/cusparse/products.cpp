#include "simulate/cusparse/stored.h"

namespace devtrace::simulate::cusparse {
namespace {

// result = alpha op(a) right + beta result.
cusparseStatus_t multiply(const Call& call, cusparseOperation_t on_a, Operation on_b, Scalar alpha, const void* a,
                          const void* b, Scalar beta, const void* c) {
  if (!library::alive(a) || !library::alive(b) || !library::alive(c)) return CUSPARSE_STATUS_INVALID_VALUE;
  const Sparse sparse = sparse_of(a);
  const Block right = dense_of(b), result = dense_of(c);
  if (!is_computed(sparse) || !is_known(right.stored.type) || !is_known(result.stored.type))
    return library::launch_in_current(call.name, call.handle, call.memory) ? CUSPARSE_STATUS_EXECUTION_FAILED
                                                                           : CUSPARSE_STATUS_SUCCESS;
  const bool turned = on_a != CUSPARSE_OPERATION_NON_TRANSPOSE;
  const bool conjugated = on_a == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
  const auto work = [=] {
    const Precision kind =
        wider(wider(precision_of(sparse.type), precision_of(right.stored.type)), precision_of(result.stored.type));
    in_precision(kind, [&](auto s) {
      using S = decltype(s);
      const S by = alpha.value<S>(), keep = beta.value<S>();
      const Matrix<S> given = operated(on_b, read<S>(right));
      const int64_t rows = turned ? sparse.columns : sparse.rows;
      Matrix<S> sum = Matrix<S>::Zero(rows, given.cols());
      if (given.rows() != (turned ? sparse.rows : sparse.columns)) library::give_up();
      if (keep != S(0)) sum = keep * read<S>(result);
      for_each<S>(sparse, [&](int64_t row, int64_t column, S value) {
        if (turned)
          sum.row(column) += by * (conjugated ? conjugate(value) : value) * given.row(row);
        else
          sum.row(row) += by * value * given.row(column);
      });
      write(result, sum);
    });
  };
  return library::calculate_in_current(call.name, call.handle, call.memory, work) ? CUSPARSE_STATUS_EXECUTION_FAILED
                                                                                  : CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

cusparseStatus_t spmv(const Call& call, cusparseOperation_t on_a, const void* alpha, cusparseConstSpMatDescr_t a,
                      cusparseConstDnVecDescr_t x, const void* beta, cusparseDnVecDescr_t y, cudaDataType compute,
                      cusparseSpMVAlg_t, void*) {
  return multiply(call, on_a, Operation::none, call.scalar(alpha, compute), a, x, call.scalar(beta, compute), y);
}

cusparseStatus_t spmm(const Call& call, cusparseOperation_t on_a, cusparseOperation_t on_b, const void* alpha,
                      cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void* beta,
                      cusparseDnMatDescr_t c, cudaDataType compute, cusparseSpMMAlg_t, void*) {
  return multiply(call, on_a, static_cast<Operation>(on_b), call.scalar(alpha, compute), a, b,
                  call.scalar(beta, compute), c);
}

cusparseStatus_t prepare(const Call& call) {
  return library::calculate_in_current(call.name, call.handle, call.memory, [] {}) ? CUSPARSE_STATUS_EXECUTION_FAILED
                                                                                   : CUSPARSE_STATUS_SUCCESS;
}

}  // namespace devtrace::simulate::cusparse

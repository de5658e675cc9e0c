// What cuSPARSE's descriptors keep (library::Object), and its products.
#pragma once

#include "simulate/common/library.h"
#include "simulate/numbers/memory.h"
#include "simulate/numbers/scalar.h"
#pragma GCC visibility push(default)
#include <cusparse.h>
#pragma GCC visibility pop

namespace devtrace::simulate::cusparse {

using namespace numbers;

// Of a handle: library::Object::modes.
enum HandleMode { kPointer };
// Of a vector or matrix: its numbers, and its modes.
enum Number { kRows, kColumns, kNonZeros, kStride };
enum Attribute { kFormat, kOffsetType, kIndexType, kIndexBase, kValueType, kOrder, kFill, kDiagonal };
// Of a sparse one the memory; of a dense one the first is its values.
enum Address { kOffsets, kIndices, kValues };
// Formats besides cuSPARSE's own: a dense one.
constexpr int kDense = -1;

struct Call {
  const char* name;
  cusparseHandle_t handle;
  library::Memory memory;

  Scalar scalar(const void* address, cudaDataType type) const {
    return {address, type, library::object(handle)->modes[kPointer] == CUSPARSE_POINTER_MODE_DEVICE};
  }
};

cusparseStatus_t spmv(const Call& call, cusparseOperation_t on_a, const void* alpha, cusparseConstSpMatDescr_t a,
                      cusparseConstDnVecDescr_t x, const void* beta, cusparseDnVecDescr_t y, cudaDataType compute,
                      cusparseSpMVAlg_t, void*);
cusparseStatus_t spmm(const Call& call, cusparseOperation_t on_a, cusparseOperation_t on_b, const void* alpha,
                      cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void* beta,
                      cusparseDnMatDescr_t c, cudaDataType compute, cusparseSpMMAlg_t, void*);
// op(a) y = alpha x of a triangular matrix; of several vectors that are a matrix's columns.
cusparseStatus_t spsv(const Call& call, cusparseOperation_t on_a, const void* alpha, cusparseConstSpMatDescr_t a,
                      cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute, cusparseSpSVAlg_t,
                      cusparseSpSVDescr_t);
cusparseStatus_t spsm(const Call& call, cusparseOperation_t on_a, cusparseOperation_t on_b, const void* alpha,
                      cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c,
                      cudaDataType compute, cusparseSpSMAlg_t, cusparseSpSMDescr_t);
// L U of a matrix by rows, as far as its own places go: in the place of its values.
cusparseStatus_t incomplete_lu(const Call& call, int64_t rows, int64_t non_zeros, int64_t base, cudaDataType type,
                               void* values, const int* offsets, const int* indices);
// Nothing to be done before a product: the call is recorded as computed.
cusparseStatus_t prepare(const Call& call);

}  // namespace devtrace::simulate::cusparse

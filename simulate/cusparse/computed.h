// cuSPARSE's functions that are computed, by the parameters that its header gives them, without the handle:
// tools/library.py writes the calls.
#pragma once

#include "simulate/cusparse/matrix.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace devtrace::simulate::cusparse {

template <class T>
cusparseStatus_t csrilu02(const Call& call, int64_t rows, int64_t non_zeros, cusparseMatDescr_t form, T* values,
                          const int* offsets, const int* indices, csrilu02Info_t, cusparseSolvePolicy_t, void*) {
  constexpr cudaDataType kType = std::is_same_v<T, double>            ? CUDA_R_64F
                                 : std::is_same_v<T, cuComplex>       ? CUDA_C_32F
                                 : std::is_same_v<T, cuDoubleComplex> ? CUDA_C_64F
                                                                      : CUDA_R_32F;
  return incomplete_lu(call, rows, non_zeros, cusparseGetMatIndexBase(form), kType, values, offsets, indices);
}
template <class... Rest>
cusparseStatus_t preprocess(const Call& call, const Rest&...) {
  return prepare(call);
}

}  // namespace devtrace::simulate::cusparse

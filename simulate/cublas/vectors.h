// BLAS of level 1.
#pragma once

#include "simulate/cublas/call.h"

namespace devtrace::simulate::cublas {

cublasStatus_t scale(const Call& call, Strided x, Scalar alpha);
cublasStatus_t add(const Call& call, Strided x, Strided y, Scalar alpha);  // y += alpha x
cublasStatus_t copy(const Call& call, Strided x, Strided y);
cublasStatus_t swap(const Call& call, Strided x, Strided y);
cublasStatus_t dot(const Call& call, Strided x, Strided y, bool conjugated, Result result);
cublasStatus_t euclidean_norm(const Call& call, Strided x, Result result);
cublasStatus_t sum_of_magnitudes(const Call& call, Strided x, Result result);
// The first of the largest, or the smallest, counted from 1; 0: there is none. The result has 4 or 8 bytes.
cublasStatus_t extreme(const Call& call, Strided x, bool largest, void* result, size_t bytes);
cublasStatus_t rotate(const Call& call, Strided x, Strided y, Scalar c, Scalar s);
cublasStatus_t make_rotation(const Call& call, Result a, Result b, Result c, Result s);
// By the five numbers of BLAS's rotm.
cublasStatus_t rotate_modified(const Call& call, Strided x, Strided y, const void* parameters, cudaDataType type);
cublasStatus_t make_modified_rotation(const Call& call, Result d1, Result d2, Result x, Scalar y, void* parameters,
                                      cudaDataType type);

}  // namespace devtrace::simulate::cublas

// Factors of many small matrices, by tables of their addresses.
#pragma once

#include "simulate/cublas/matrices.h"

namespace devtrace::simulate::cublas {

// P A = L U in its place. `pivots`: so many as the order, of each; null: without exchanges. `info`: of the device's.
cublasStatus_t factorise(const Call& call, Many a, int* pivots, int* info, int64_t count);
cublasStatus_t invert_factors(const Call& call, Many a, const int* pivots, Many inverse, int* info, int64_t count);
// `info` is one of the host's.
cublasStatus_t solve_factors(const Call& call, Operation on_a, Many a, const int* pivots, Many b, int* info,
                             int64_t count);
cublasStatus_t invert(const Call& call, Many a, Many inverse, int* info, int64_t count);
// A = Q R. `info` is one of the host's.
cublasStatus_t orthogonalise(const Call& call, Many a, Many tau, int* info, int64_t count);
// What A x = c misses least, in c's place. `info` is one of the host's, `infos` the device's.
cublasStatus_t least_squares(const Call& call, cublasOperation_t on_a, Many a, Many c, int* info, int* infos,
                             int64_t count);

}  // namespace devtrace::simulate::cublas

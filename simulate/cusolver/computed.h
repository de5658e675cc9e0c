// cuSOLVER's functions by the parameters that its header gives them, without the handle: tools/library.py writes the
// calls. One template a family; the type of a number is that of the pointer to it.
#pragma once

#include <algorithm>

#include "simulate/cusolver/dense.h"

namespace devtrace::simulate::cusolver {

template <class T>
inline constexpr cudaDataType kType = std::is_same_v<T, double>            ? CUDA_R_64F
                                      : std::is_same_v<T, cuComplex>       ? CUDA_C_32F
                                      : std::is_same_v<T, cuDoubleComplex> ? CUDA_C_64F
                                                                           : CUDA_R_32F;
template <class T>
Dense dense(const T* m, int64_t rows, int64_t columns, int64_t stride) {
  return {kType<T>, m, rows, columns, stride};
}
inline Operation operation_of(cublasOperation_t operation) {
  return static_cast<Operation>(operation);
}
inline Fill fill_of(cublasFillMode_t fill) {
  return static_cast<Fill>(fill);
}
inline char letter(bool wanted, bool thin) {
  return !wanted ? 'N' : thin ? 'S' : 'A';
}

template <class T>
cusolverStatus_t getrf(const Call& call, int64_t m, int64_t n, T* a, int64_t stride, T*, int* pivots, int* info) {
  return factorise_lu(call, dense(a, m, n, stride), pivots_at(pivots), info);
}
inline cusolverStatus_t getrf_x(const Call& call, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, void* a,
                                int64_t stride, int64_t* pivots, cudaDataType, void*, size_t, void*, size_t,
                                int* info) {
  return factorise_lu(call, {type, a, m, n, stride}, pivots_at(pivots), info);
}
template <class T>
cusolverStatus_t getrs(const Call& call, cublasOperation_t on_a, int64_t n, int64_t columns, const T* a, int64_t stride,
                       const int* pivots, T* b, int64_t b_stride, int* info) {
  return solve_lu(call, operation_of(on_a), dense(a, n, n, stride), pivots_at(pivots), dense(b, n, columns, b_stride),
                  info);
}
inline cusolverStatus_t getrs_x(const Call& call, cusolverDnParams_t, cublasOperation_t on_a, int64_t n,
                                int64_t columns, cudaDataType type, const void* a, int64_t stride,
                                const int64_t* pivots, cudaDataType b_type, void* b, int64_t b_stride, int* info) {
  return solve_lu(call, operation_of(on_a), {type, a, n, n, stride}, pivots_at(pivots),
                  {b_type, b, n, columns, b_stride}, info);
}
template <class T>
cusolverStatus_t potrf(const Call& call, cublasFillMode_t fill, int64_t n, T* a, int64_t stride, T*, int64_t,
                       int* info) {
  return factorise_cholesky(call, fill_of(fill), dense(a, n, n, stride), 0, info);
}
inline cusolverStatus_t potrf_x(const Call& call, cusolverDnParams_t, cublasFillMode_t fill, int64_t n,
                                cudaDataType type, void* a, int64_t stride, cudaDataType, void*, size_t, void*, size_t,
                                int* info) {
  return factorise_cholesky(call, fill_of(fill), {type, a, n, n, stride}, 0, info);
}
template <class T>
cusolverStatus_t potrf_batched(const Call& call, cublasFillMode_t fill, int64_t n, T* a[], int64_t stride, int* info,
                               int64_t count) {
  if (count == 0) return CUSOLVER_STATUS_SUCCESS;
  return factorise_cholesky(call, fill_of(fill), {kType<T>, a, n, n, stride}, count, info);
}
template <class T>
cusolverStatus_t potrs(const Call& call, cublasFillMode_t fill, int64_t n, int64_t columns, const T* a, int64_t stride,
                       T* b, int64_t b_stride, int* info) {
  return solve_cholesky(call, fill_of(fill), dense(a, n, n, stride), dense(b, n, columns, b_stride), 0, info);
}
inline cusolverStatus_t potrs_x(const Call& call, cusolverDnParams_t, cublasFillMode_t fill, int64_t n, int64_t columns,
                                cudaDataType type, const void* a, int64_t stride, cudaDataType b_type, void* b,
                                int64_t b_stride, int* info) {
  return solve_cholesky(call, fill_of(fill), {type, a, n, n, stride}, {b_type, b, n, columns, b_stride}, 0, info);
}
template <class T>
cusolverStatus_t potrs_batched(const Call& call, cublasFillMode_t fill, int64_t n, int64_t columns, T* a[],
                               int64_t stride, T* b[], int64_t b_stride, int* info, int64_t count) {
  if (count == 0) return CUSOLVER_STATUS_SUCCESS;
  return solve_cholesky(call, fill_of(fill), {kType<T>, a, n, n, stride}, {kType<T>, b, n, columns, b_stride}, count,
                        info);
}
template <class T>
cusolverStatus_t potri(const Call& call, cublasFillMode_t fill, int64_t n, T* a, int64_t stride, T*, int64_t,
                       int* info) {
  return invert_cholesky(call, fill_of(fill), dense(a, n, n, stride), info);
}
template <class T>
cusolverStatus_t geqrf(const Call& call, int64_t m, int64_t n, T* a, int64_t stride, T* tau, T*, int64_t, int* info) {
  return factorise_qr(call, dense(a, m, n, stride), tau, info);
}
inline cusolverStatus_t geqrf_x(const Call& call, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, void* a,
                                int64_t stride, cudaDataType, void* tau, cudaDataType, void*, size_t, void*, size_t,
                                int* info) {
  return factorise_qr(call, {type, a, m, n, stride}, tau, info);
}
template <class T>
cusolverStatus_t orgqr(const Call& call, int64_t m, int64_t n, int64_t k, T* a, int64_t stride, const T* tau, T*,
                       int64_t, int* info) {
  return make_q(call, dense(a, m, n, stride), k, tau, info);
}
template <class T>
cusolverStatus_t ormqr(const Call& call, cublasSideMode_t side, cublasOperation_t on_q, int64_t m, int64_t n, int64_t k,
                       const T* a, int64_t stride, const T* tau, T* c, int64_t c_stride, T*, int64_t, int* info) {
  const bool left = side == CUBLAS_SIDE_LEFT;
  return multiply_q(call, left, operation_of(on_q), dense(a, left ? m : n, k, stride), tau, dense(c, m, n, c_stride),
                    info);
}
template <class T, class R>
cusolverStatus_t syevd(const Call& call, cusolverEigMode_t mode, cublasFillMode_t fill, int64_t n, T* a, int64_t stride,
                       R* values, T*, int64_t, int* info) {
  return eigenvalues(call, mode == CUSOLVER_EIG_MODE_VECTOR, fill_of(fill), dense(a, n, n, stride), values, info);
}
template <class T, class R>
cusolverStatus_t syevj(const Call& call, cusolverEigMode_t mode, cublasFillMode_t fill, int64_t n, T* a, int64_t stride,
                       R* values, T*, int64_t, int* info, syevjInfo_t) {
  return eigenvalues(call, mode == CUSOLVER_EIG_MODE_VECTOR, fill_of(fill), dense(a, n, n, stride), values, info);
}
inline cusolverStatus_t syevd_x(const Call& call, cusolverDnParams_t, cusolverEigMode_t mode, cublasFillMode_t fill,
                                int64_t n, cudaDataType type, void* a, int64_t stride, cudaDataType, void* values,
                                cudaDataType, void*, size_t, void*, size_t, int* info) {
  return eigenvalues(call, mode == CUSOLVER_EIG_MODE_VECTOR, fill_of(fill), {type, a, n, n, stride}, values, info);
}
template <class T, class R>
cusolverStatus_t gesvd(const Call& call, signed char u_wanted, signed char v_wanted, int64_t m, int64_t n, T* a,
                       int64_t stride, R* values, T* u, int64_t u_stride, T* v, int64_t v_stride, T*, int64_t, R*,
                       int* info) {
  return singular_values(call, static_cast<char>(u_wanted), static_cast<char>(v_wanted), false, dense(a, m, n, stride),
                         values, dense(u, m, m, u_stride), dense(v, n, n, v_stride), info);
}
inline cusolverStatus_t gesvd_x(const Call& call, cusolverDnParams_t, signed char u_wanted, signed char v_wanted,
                                int64_t m, int64_t n, cudaDataType type, void* a, int64_t stride, cudaDataType,
                                void* values, cudaDataType u_type, void* u, int64_t u_stride, cudaDataType v_type,
                                void* v, int64_t v_stride, cudaDataType, void*, size_t, void*, size_t, int* info) {
  return singular_values(call, static_cast<char>(u_wanted), static_cast<char>(v_wanted), false, {type, a, m, n, stride},
                         values, {u_type, u, m, m, u_stride}, {v_type, v, n, n, v_stride}, info);
}
template <class T, class R>
cusolverStatus_t gesvdj(const Call& call, cusolverEigMode_t mode, int economic, int64_t m, int64_t n, T* a,
                        int64_t stride, R* values, T* u, int64_t u_stride, T* v, int64_t v_stride, T*, int64_t,
                        int* info, gesvdjInfo_t) {
  const char wanted = letter(mode == CUSOLVER_EIG_MODE_VECTOR, economic);
  return singular_values(call, wanted, wanted, true, dense(a, m, n, stride), values, dense(u, m, m, u_stride),
                         dense(v, n, n, v_stride), info);
}

}  // namespace devtrace::simulate::cusolver

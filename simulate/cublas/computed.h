// cuBLAS's functions by the parameters that its header gives them, without the handle: tools/library.py writes the
// calls. One template a family; the type of a number is that of the pointer to it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "simulate/cublas/factors.h"
#include "simulate/cublas/matrices.h"
#include "simulate/cublas/vectors.h"

namespace devtrace::simulate::cublas {

template <class T>
inline constexpr cudaDataType kType = [] {
  if constexpr (std::is_same_v<T, double>) return CUDA_R_64F;
  if constexpr (std::is_same_v<T, cuComplex>) return CUDA_C_32F;
  if constexpr (std::is_same_v<T, cuDoubleComplex>) return CUDA_C_64F;
  if constexpr (std::is_same_v<T, __half>) return CUDA_R_16F;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return CUDA_R_16BF;
  return CUDA_R_32F;
}();

inline bool is_left(cublasSideMode_t side) {
  return side == CUBLAS_SIDE_LEFT;
}
inline bool is_unit(cublasDiagType_t diagonal) {
  return diagonal == CUBLAS_DIAG_UNIT;
}
inline bool is_plain(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_CONJG;
}

template <class T>
Strided vector(const T* x, int64_t n, int64_t step) {
  return {kType<T>, x, n, step};
}
// op(m) has so many rows and columns.
inline Dense dense(cudaDataType type, const void* m, cublasOperation_t operation, int64_t rows, int64_t columns,
                   int64_t stride) {
  return is_plain(operation) ? Dense{type, m, rows, columns, stride} : Dense{type, m, columns, rows, stride};
}
template <class T>
Dense dense(const T* m, int64_t rows, int64_t columns, int64_t stride) {
  return {kType<T>, m, rows, columns, stride};
}
template <class T>
Square square(const T* m, cublasFillMode_t fill, int64_t n, int64_t stride) {
  return {kType<T>, m, n, fill_of(fill), Square::full, stride, 0};
}
template <class T>
Square packed(const T* m, cublasFillMode_t fill, int64_t n) {
  return {kType<T>, m, n, fill_of(fill), Square::packed, 0, 0};
}
template <class T>
Square band(const T* m, cublasFillMode_t fill, int64_t n, int64_t diagonals, int64_t stride) {
  return {kType<T>, m, n, fill_of(fill), Square::band, stride, diagonals};
}

// --- Level 1. ---

template <class A, class T>
cublasStatus_t scal(const Call& call, int64_t n, const A* alpha, T* x, int64_t step) {
  return scale(call, vector(x, n, step), call.scalar(alpha, kType<A>));
}
inline cublasStatus_t scal_ex(const Call& call, int64_t n, const void* alpha, cudaDataType alpha_type, void* x,
                              cudaDataType x_type, int64_t step, cudaDataType) {
  return scale(call, {x_type, x, n, step}, call.scalar(alpha, alpha_type));
}
template <class T>
cublasStatus_t axpy(const Call& call, int64_t n, const T* alpha, const T* x, int64_t x_step, T* y, int64_t y_step) {
  return add(call, vector(x, n, x_step), vector(y, n, y_step), call.scalar(alpha, kType<T>));
}
inline cublasStatus_t axpy_ex(const Call& call, int64_t n, const void* alpha, cudaDataType alpha_type, const void* x,
                              cudaDataType x_type, int64_t x_step, void* y, cudaDataType y_type, int64_t y_step,
                              cudaDataType) {
  return add(call, {x_type, x, n, x_step}, {y_type, y, n, y_step}, call.scalar(alpha, alpha_type));
}
template <class T>
cublasStatus_t copy(const Call& call, int64_t n, const T* x, int64_t x_step, T* y, int64_t y_step) {
  return copy(call, vector(x, n, x_step), vector(y, n, y_step));
}
inline cublasStatus_t copy_ex(const Call& call, int64_t n, const void* x, cudaDataType x_type, int64_t x_step, void* y,
                              cudaDataType y_type, int64_t y_step) {
  return copy(call, {x_type, x, n, x_step}, {y_type, y, n, y_step});
}
template <class T>
cublasStatus_t swap(const Call& call, int64_t n, T* x, int64_t x_step, T* y, int64_t y_step) {
  return swap(call, vector(x, n, x_step), vector(y, n, y_step));
}
inline cublasStatus_t swap_ex(const Call& call, int64_t n, void* x, cudaDataType x_type, int64_t x_step, void* y,
                              cudaDataType y_type, int64_t y_step) {
  return swap(call, {x_type, x, n, x_step}, {y_type, y, n, y_step});
}
template <class T>
cublasStatus_t dot(const Call& call, int64_t n, const T* x, int64_t x_step, const T* y, int64_t y_step, T* result) {
  return dot(call, vector(x, n, x_step), vector(y, n, y_step), false, call.result(result, kType<T>));
}
template <class T>
cublasStatus_t dotc(const Call& call, int64_t n, const T* x, int64_t x_step, const T* y, int64_t y_step, T* result) {
  return dot(call, vector(x, n, x_step), vector(y, n, y_step), true, call.result(result, kType<T>));
}
template <bool conjugated>
cublasStatus_t dot_by_type(const Call& call, int64_t n, const void* x, cudaDataType x_type, int64_t x_step,
                           const void* y, cudaDataType y_type, int64_t y_step, void* result, cudaDataType result_type,
                           cudaDataType) {
  return dot(call, {x_type, x, n, x_step}, {y_type, y, n, y_step}, conjugated, call.result(result, result_type));
}
inline constexpr auto& dot_ex = dot_by_type<false>;
inline constexpr auto& dotc_ex = dot_by_type<true>;
template <class T, class R>
cublasStatus_t nrm2(const Call& call, int64_t n, const T* x, int64_t step, R* result) {
  return euclidean_norm(call, vector(x, n, step), call.result(result, kType<R>));
}
inline cublasStatus_t nrm2_ex(const Call& call, int64_t n, const void* x, cudaDataType x_type, int64_t step,
                              void* result, cudaDataType result_type, cudaDataType) {
  return euclidean_norm(call, {x_type, x, n, step}, call.result(result, result_type));
}
template <class T, class R>
cublasStatus_t asum(const Call& call, int64_t n, const T* x, int64_t step, R* result) {
  return sum_of_magnitudes(call, vector(x, n, step), call.result(result, kType<R>));
}
inline cublasStatus_t asum_ex(const Call& call, int64_t n, const void* x, cudaDataType x_type, int64_t step,
                              void* result, cudaDataType result_type, cudaDataType) {
  return sum_of_magnitudes(call, {x_type, x, n, step}, call.result(result, result_type));
}
template <class T, class I>
cublasStatus_t amax(const Call& call, int64_t n, const T* x, int64_t step, I* result) {
  return extreme(call, vector(x, n, step), true, result, sizeof *result);
}
template <class T, class I>
cublasStatus_t amin(const Call& call, int64_t n, const T* x, int64_t step, I* result) {
  return extreme(call, vector(x, n, step), false, result, sizeof *result);
}
template <class I>
cublasStatus_t amax_ex(const Call& call, int64_t n, const void* x, cudaDataType type, int64_t step, I* result) {
  return extreme(call, {type, x, n, step}, true, result, sizeof *result);
}
template <class I>
cublasStatus_t amin_ex(const Call& call, int64_t n, const void* x, cudaDataType type, int64_t step, I* result) {
  return extreme(call, {type, x, n, step}, false, result, sizeof *result);
}
template <class T, class C, class S>
cublasStatus_t rot(const Call& call, int64_t n, T* x, int64_t x_step, T* y, int64_t y_step, const C* c, const S* s) {
  return rotate(call, vector(x, n, x_step), vector(y, n, y_step), call.scalar(c, kType<C>), call.scalar(s, kType<S>));
}
inline cublasStatus_t rot_ex(const Call& call, int64_t n, void* x, cudaDataType x_type, int64_t x_step, void* y,
                             cudaDataType y_type, int64_t y_step, const void* c, const void* s, cudaDataType type,
                             cudaDataType) {
  return rotate(call, {x_type, x, n, x_step}, {y_type, y, n, y_step}, call.scalar(c, type), call.scalar(s, type));
}
template <class T, class C>
cublasStatus_t rotg(const Call& call, T* a, T* b, C* c, T* s) {
  return make_rotation(call, call.result(a, kType<T>), call.result(b, kType<T>), call.result(c, kType<C>),
                       call.result(s, kType<T>));
}
template <class T>
cublasStatus_t rotm(const Call& call, int64_t n, T* x, int64_t x_step, T* y, int64_t y_step, const T* parameters) {
  return rotate_modified(call, vector(x, n, x_step), vector(y, n, y_step), parameters, kType<T>);
}
template <class T>
cublasStatus_t rotmg(const Call& call, T* d1, T* d2, T* x, const T* y, T* parameters) {
  const auto one = [&](T* at) { return call.result(at, kType<T>); };
  return make_modified_rotation(call, one(d1), one(d2), one(x), call.scalar(y, kType<T>), parameters, kType<T>);
}

// --- Level 2. ---

template <class T>
cublasStatus_t gemv(const Call& call, cublasOperation_t on_a, int64_t m, int64_t n, const T* alpha, const T* a,
                    int64_t stride, const T* x, int64_t x_step, const T* beta, T* y, int64_t y_step) {
  const bool plain = is_plain(on_a);
  return multiply(call, operation_of(on_a), Many{dense(a, m, n, stride)}, Vectors{vector(x, plain ? n : m, x_step)},
                  Vectors{vector(y, plain ? m : n, y_step)}, call.scalar(alpha, kType<T>), call.scalar(beta, kType<T>));
}
template <class A, class T, class R>
cublasStatus_t gemv_batched(const Call& call, cublasOperation_t on_a, int64_t m, int64_t n, const A* alpha,
                            const T* const a[], int64_t stride, const T* const x[], int64_t x_step, const A* beta,
                            R* const y[], int64_t y_step, int64_t count) {
  const bool plain = is_plain(on_a);
  return multiply(call, operation_of(on_a), Many{{kType<T>, a, m, n, stride}, 0, true},
                  Vectors{{kType<T>, x, plain ? n : m, x_step}, 0, true},
                  Vectors{{kType<R>, y, plain ? m : n, y_step}, 0, true}, call.scalar(alpha, kType<A>),
                  call.scalar(beta, kType<A>), count);
}
template <class A, class T, class R>
cublasStatus_t gemv_strided(const Call& call, cublasOperation_t on_a, int64_t m, int64_t n, const A* alpha, const T* a,
                            int64_t stride, int64_t a_distance, const T* x, int64_t x_step, int64_t x_distance,
                            const A* beta, R* y, int64_t y_step, int64_t y_distance, int64_t count) {
  const bool plain = is_plain(on_a);
  return multiply(call, operation_of(on_a), Many{dense(a, m, n, stride), a_distance},
                  Vectors{vector(x, plain ? n : m, x_step), x_distance},
                  Vectors{vector(y, plain ? m : n, y_step), y_distance}, call.scalar(alpha, kType<A>),
                  call.scalar(beta, kType<A>), count);
}
template <class T>
cublasStatus_t gbmv(const Call& call, cublasOperation_t on_a, int64_t m, int64_t n, int64_t below, int64_t above,
                    const T* alpha, const T* a, int64_t stride, const T* x, int64_t x_step, const T* beta, T* y,
                    int64_t y_step) {
  const bool plain = is_plain(on_a);
  return multiply_band(call, operation_of(on_a), dense(a, m, n, stride), below, above, vector(x, plain ? n : m, x_step),
                       vector(y, plain ? m : n, y_step), call.scalar(alpha, kType<T>), call.scalar(beta, kType<T>));
}
template <bool solves, class T>
cublasStatus_t in_triangle(const Call& call, Square a, cublasOperation_t on_a, cublasDiagType_t diagonal, T* x,
                           int64_t step) {
  return triangular(call, a, operation_of(on_a), is_unit(diagonal), vector(x, a.order, step), solves);
}
#define TRIANGULAR(multiplies, solves, form, ...)                                                                   \
  template <class T>                                                                                                \
  cublasStatus_t multiplies(const Call& call, cublasFillMode_t fill, cublasOperation_t on_a, cublasDiagType_t unit, \
                            int64_t n, __VA_ARGS__, T* x, int64_t step) {                                           \
    return in_triangle<false>(call, form, on_a, unit, x, step);                                                     \
  }                                                                                                                 \
  template <class T>                                                                                                \
  cublasStatus_t solves(const Call& call, cublasFillMode_t fill, cublasOperation_t on_a, cublasDiagType_t unit,     \
                        int64_t n, __VA_ARGS__, T* x, int64_t step) {                                               \
    return in_triangle<true>(call, form, on_a, unit, x, step);                                                      \
  }
TRIANGULAR(trmv, trsv, square(a, fill, n, stride), const T* a, int64_t stride)
TRIANGULAR(tpmv, tpsv, packed(a, fill, n), const T* a)
TRIANGULAR(tbmv, tbsv, band(a, fill, n, k, stride), int64_t k, const T* a, int64_t stride)
#undef TRIANGULAR

// A product, and updates by one vector and by two: of symmetric matrices, and of hermitian ones.
#define SYMMETRIC(name, symmetry, form, ...)                                                                       \
  template <class T>                                                                                               \
  cublasStatus_t name(const Call& call, cublasFillMode_t fill, int64_t n, __VA_ARGS__, const T* x, int64_t x_step, \
                      const T* beta, T* y, int64_t y_step) {                                                       \
    return multiply_symmetric(call, form, Symmetry::symmetry, vector(x, n, x_step), vector(y, n, y_step),          \
                              call.scalar(alpha, kType<T>), call.scalar(beta, kType<T>));                          \
  }
SYMMETRIC(symv, symmetric, square(a, fill, n, stride), const T* alpha, const T* a, int64_t stride)
SYMMETRIC(hemv, hermitian, square(a, fill, n, stride), const T* alpha, const T* a, int64_t stride)
SYMMETRIC(spmv, symmetric, packed(a, fill, n), const T* alpha, const T* a)
SYMMETRIC(hpmv, hermitian, packed(a, fill, n), const T* alpha, const T* a)
SYMMETRIC(sbmv, symmetric, band(a, fill, n, k, stride), int64_t k, const T* alpha, const T* a, int64_t stride)
SYMMETRIC(hbmv, hermitian, band(a, fill, n, k, stride), int64_t k, const T* alpha, const T* a, int64_t stride)
#undef SYMMETRIC
#define UPDATE(one, two, symmetry, form, ...)                                                                        \
  template <class A, class T>                                                                                        \
  cublasStatus_t one(const Call& call, cublasFillMode_t fill, int64_t n, const A* alpha, const T* x, int64_t x_step, \
                     __VA_ARGS__) {                                                                                  \
    return update(call, form, Symmetry::symmetry, vector(x, n, x_step), call.scalar(alpha, kType<A>));               \
  }                                                                                                                  \
  template <class T>                                                                                                 \
  cublasStatus_t two(const Call& call, cublasFillMode_t fill, int64_t n, const T* alpha, const T* x, int64_t x_step, \
                     const T* y, int64_t y_step, __VA_ARGS__) {                                                      \
    return update(call, form, Symmetry::symmetry, vector(x, n, x_step), vector(y, n, y_step),                        \
                  call.scalar(alpha, kType<T>));                                                                     \
  }
UPDATE(syr, syr2, symmetric, square(a, fill, n, stride), T* a, int64_t stride)
UPDATE(her, her2, hermitian, square(a, fill, n, stride), T* a, int64_t stride)
UPDATE(spr, spr2, symmetric, packed(a, fill, n), T* a)
UPDATE(hpr, hpr2, hermitian, packed(a, fill, n), T* a)
#undef UPDATE
template <class T>
cublasStatus_t ger(const Call& call, int64_t m, int64_t n, const T* alpha, const T* x, int64_t x_step, const T* y,
                   int64_t y_step, T* a, int64_t stride) {
  return rank_one(call, dense(a, m, n, stride), vector(x, m, x_step), vector(y, n, y_step), false,
                  call.scalar(alpha, kType<T>));
}
template <class T>
cublasStatus_t gerc(const Call& call, int64_t m, int64_t n, const T* alpha, const T* x, int64_t x_step, const T* y,
                    int64_t y_step, T* a, int64_t stride) {
  return rank_one(call, dense(a, m, n, stride), vector(x, m, x_step), vector(y, n, y_step), true,
                  call.scalar(alpha, kType<T>));
}

// --- Level 3. ---

struct Shape {
  cublasOperation_t on_a, on_b;
  int64_t m, n, k;
};
struct Typed {
  const void* data;
  cudaDataType type;
  int64_t stride, distance = 0;
};
inline cublasStatus_t gemm_of(const Call& call, Shape s, Scalar alpha, Typed a, Typed b, Scalar beta, Typed c,
                              int64_t count = 1, bool tables = false) {
  return multiply(call, operation_of(s.on_a), operation_of(s.on_b),
                  Many{dense(a.type, a.data, s.on_a, s.m, s.k, a.stride), a.distance, tables},
                  Many{dense(b.type, b.data, s.on_b, s.k, s.n, b.stride), b.distance, tables},
                  Many{{c.type, c.data, s.m, s.n, c.stride}, c.distance, tables}, alpha, beta, count);
}
template <class T>
cublasStatus_t gemm(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m, int64_t n, int64_t k,
                    const T* alpha, const T* a, int64_t a_stride, const T* b, int64_t b_stride, const T* beta, T* c,
                    int64_t c_stride) {
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, kType<T>), {a, kType<T>, a_stride},
                 {b, kType<T>, b_stride}, call.scalar(beta, kType<T>), {c, kType<T>, c_stride});
}
template <class T>
cublasStatus_t gemm_batched(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m, int64_t n,
                            int64_t k, const T* alpha, const T* const a[], int64_t a_stride, const T* const b[],
                            int64_t b_stride, const T* beta, T* const c[], int64_t c_stride, int64_t count) {
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, kType<T>), {a, kType<T>, a_stride},
                 {b, kType<T>, b_stride}, call.scalar(beta, kType<T>), {c, kType<T>, c_stride}, count, true);
}
template <class T>
cublasStatus_t gemm_strided(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m, int64_t n,
                            int64_t k, const T* alpha, const T* a, int64_t a_stride, int64_t a_distance, const T* b,
                            int64_t b_stride, int64_t b_distance, const T* beta, T* c, int64_t c_stride,
                            int64_t c_distance, int64_t count) {
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, kType<T>), {a, kType<T>, a_stride, a_distance},
                 {b, kType<T>, b_stride, b_distance}, call.scalar(beta, kType<T>), {c, kType<T>, c_stride, c_distance},
                 count);
}
// SgemmEx and its kin: the scalars' type is that of the name.
template <class A>
cublasStatus_t gemm_of_types(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m, int64_t n,
                             int64_t k, const A* alpha, const void* a, cudaDataType a_type, int64_t a_stride,
                             const void* b, cudaDataType b_type, int64_t b_stride, const A* beta, void* c,
                             cudaDataType c_type, int64_t c_stride) {
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, kType<A>), {a, a_type, a_stride},
                 {b, b_type, b_stride}, call.scalar(beta, kType<A>), {c, c_type, c_stride});
}
// The type of alpha and beta, by cuBLAS's table of its types of computation.
inline cudaDataType scale_type(cublasComputeType_t compute, cudaDataType c) {
  const bool complex = c == CUDA_C_32F || c == CUDA_C_64F;
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return CUDA_R_16F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return c == CUDA_R_32I ? CUDA_R_32I : CUDA_R_32F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return complex ? CUDA_C_64F : CUDA_R_64F;
    default:
      return complex ? CUDA_C_32F : CUDA_R_32F;
  }
}
inline cublasStatus_t gemm_ex(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m, int64_t n,
                              int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t a_stride,
                              const void* b, cudaDataType b_type, int64_t b_stride, const void* beta, void* c,
                              cudaDataType c_type, int64_t c_stride, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const cudaDataType scale = scale_type(compute, c_type);
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, scale), {a, a_type, a_stride}, {b, b_type, b_stride},
                 call.scalar(beta, scale), {c, c_type, c_stride});
}
inline cublasStatus_t gemm_batched_ex(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m,
                                      int64_t n, int64_t k, const void* alpha, const void* const a[],
                                      cudaDataType a_type, int64_t a_stride, const void* const b[], cudaDataType b_type,
                                      int64_t b_stride, const void* beta, void* const c[], cudaDataType c_type,
                                      int64_t c_stride, int64_t count, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const cudaDataType scale = scale_type(compute, c_type);
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, scale), {a, a_type, a_stride}, {b, b_type, b_stride},
                 call.scalar(beta, scale), {c, c_type, c_stride}, count, true);
}
inline cublasStatus_t gemm_strided_ex(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m,
                                      int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType a_type,
                                      int64_t a_stride, int64_t a_distance, const void* b, cudaDataType b_type,
                                      int64_t b_stride, int64_t b_distance, const void* beta, void* c,
                                      cudaDataType c_type, int64_t c_stride, int64_t c_distance, int64_t count,
                                      cublasComputeType_t compute, cublasGemmAlgo_t) {
  const cudaDataType scale = scale_type(compute, c_type);
  return gemm_of(call, {on_a, on_b, m, n, k}, call.scalar(alpha, scale), {a, a_type, a_stride, a_distance},
                 {b, b_type, b_stride, b_distance}, call.scalar(beta, scale), {c, c_type, c_stride, c_distance}, count);
}
template <class T>
cublasStatus_t symm(const Call& call, cublasSideMode_t side, cublasFillMode_t fill, int64_t m, int64_t n,
                    const T* alpha, const T* a, int64_t a_stride, const T* b, int64_t b_stride, const T* beta, T* c,
                    int64_t c_stride) {
  return multiply_symmetric(call, square(a, fill, is_left(side) ? m : n, a_stride), Symmetry::symmetric, is_left(side),
                            dense(b, m, n, b_stride), dense(c, m, n, c_stride), call.scalar(alpha, kType<T>),
                            call.scalar(beta, kType<T>));
}
template <class T>
cublasStatus_t hemm(const Call& call, cublasSideMode_t side, cublasFillMode_t fill, int64_t m, int64_t n,
                    const T* alpha, const T* a, int64_t a_stride, const T* b, int64_t b_stride, const T* beta, T* c,
                    int64_t c_stride) {
  return multiply_symmetric(call, square(a, fill, is_left(side) ? m : n, a_stride), Symmetry::hermitian, is_left(side),
                            dense(b, m, n, b_stride), dense(c, m, n, c_stride), call.scalar(alpha, kType<T>),
                            call.scalar(beta, kType<T>));
}
template <class A, class B, class T>
cublasStatus_t update_of(const Call& call, cublasFillMode_t fill, cublasOperation_t on_a, int64_t n, int64_t k,
                         const A* alpha, Typed a, Typed b, const B* beta, T* c, int64_t stride, Symmetry symmetry,
                         bool twice) {
  return update(call, square(c, fill, n, stride), symmetry, operation_of(on_a),
                dense(a.type, a.data, on_a, n, k, a.stride), dense(b.type, b.data, on_a, n, k, b.stride), twice,
                call.scalar(alpha, kType<A>), call.scalar(beta, kType<B>));
}
#define RANK_K(one, two, other, symmetry)                                                                             \
  template <class A, class T>                                                                                         \
  cublasStatus_t one(const Call& call, cublasFillMode_t fill, cublasOperation_t on_a, int64_t n, int64_t k,           \
                     const A* alpha, const T* a, int64_t a_stride, const A* beta, T* c, int64_t c_stride) {           \
    const Typed both = {a, kType<T>, a_stride};                                                                       \
    return update_of(call, fill, on_a, n, k, alpha, both, both, beta, c, c_stride, Symmetry::symmetry, false);        \
  }                                                                                                                   \
  template <class T, class B>                                                                                         \
  cublasStatus_t two(const Call& call, cublasFillMode_t fill, cublasOperation_t on_a, int64_t n, int64_t k,           \
                     const T* alpha, const T* a, int64_t a_stride, const T* b, int64_t b_stride, const B* beta, T* c, \
                     int64_t c_stride) {                                                                              \
    return update_of(call, fill, on_a, n, k, alpha, {a, kType<T>, a_stride}, {b, kType<T>, b_stride}, beta, c,        \
                     c_stride, Symmetry::symmetry, true);                                                             \
  }                                                                                                                   \
  template <class T, class B>                                                                                         \
  cublasStatus_t other(const Call& call, cublasFillMode_t fill, cublasOperation_t on_a, int64_t n, int64_t k,         \
                       const T* alpha, const T* a, int64_t a_stride, const T* b, int64_t b_stride, const B* beta,     \
                       T* c, int64_t c_stride) {                                                                      \
    return update_of(call, fill, on_a, n, k, alpha, {a, kType<T>, a_stride}, {b, kType<T>, b_stride}, beta, c,        \
                     c_stride, Symmetry::symmetry, false);                                                            \
  }
RANK_K(syrk, syr2k, syrkx, symmetric)
RANK_K(herk, her2k, herkx, hermitian)
#undef RANK_K
template <class T>
cublasStatus_t trmm(const Call& call, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t on_a,
                    cublasDiagType_t unit, int64_t m, int64_t n, const T* alpha, const T* a, int64_t a_stride,
                    const T* b, int64_t b_stride, T* c, int64_t c_stride) {
  return multiply_triangular(call, square(a, fill, is_left(side) ? m : n, a_stride), operation_of(on_a), is_unit(unit),
                             is_left(side), dense(b, m, n, b_stride), dense(c, m, n, c_stride),
                             call.scalar(alpha, kType<T>));
}
template <class T>
cublasStatus_t trsm(const Call& call, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t on_a,
                    cublasDiagType_t unit, int64_t m, int64_t n, const T* alpha, const T* a, int64_t a_stride, T* b,
                    int64_t b_stride) {
  const int64_t order = is_left(side) ? m : n;
  return solve_triangular(call, Many{dense(a, order, order, a_stride)}, fill_of(fill), operation_of(on_a),
                          is_unit(unit), is_left(side), Many{dense(b, m, n, b_stride)}, call.scalar(alpha, kType<T>));
}
template <class T>
cublasStatus_t trsm_batched(const Call& call, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t on_a,
                            cublasDiagType_t unit, int64_t m, int64_t n, const T* alpha, const T* const a[],
                            int64_t a_stride, T* const b[], int64_t b_stride, int64_t count) {
  const int64_t order = is_left(side) ? m : n;
  return solve_triangular(call, Many{{kType<T>, a, order, order, a_stride}, 0, true}, fill_of(fill), operation_of(on_a),
                          is_unit(unit), is_left(side), Many{{kType<T>, b, m, n, b_stride}, 0, true},
                          call.scalar(alpha, kType<T>), count);
}
template <class T>
cublasStatus_t geam(const Call& call, cublasOperation_t on_a, cublasOperation_t on_b, int64_t m, int64_t n,
                    const T* alpha, const T* a, int64_t a_stride, const T* beta, const T* b, int64_t b_stride, T* c,
                    int64_t c_stride) {
  return add(call, operation_of(on_a), operation_of(on_b), dense(kType<T>, a, on_a, m, n, a_stride),
             dense(kType<T>, b, on_b, m, n, b_stride), dense(c, m, n, c_stride), call.scalar(alpha, kType<T>),
             call.scalar(beta, kType<T>));
}
template <class T>
cublasStatus_t dgmm(const Call& call, cublasSideMode_t side, int64_t m, int64_t n, const T* a, int64_t a_stride,
                    const T* x, int64_t step, T* c, int64_t c_stride) {
  return multiply_diagonal(call, is_left(side), dense(a, m, n, a_stride), vector(x, is_left(side) ? m : n, step),
                           dense(c, m, n, c_stride));
}
template <class T>
cublasStatus_t tpttr(const Call& call, cublasFillMode_t fill, int64_t n, const T* from, T* a, int64_t stride) {
  return copy(call, packed(from, fill, n), square(a, fill, n, stride));
}
template <class T>
cublasStatus_t trttp(const Call& call, cublasFillMode_t fill, int64_t n, const T* a, int64_t stride, T* to) {
  return copy(call, square(a, fill, n, stride), packed(to, fill, n));
}

// --- Factors of many small matrices. ---

template <class T>
Many table(const T* const a[], int64_t rows, int64_t columns, int64_t stride) {
  return {{kType<T>, a, rows, columns, stride}, 0, true};
}
template <class T>
cublasStatus_t getrf_batched(const Call& call, int64_t n, T* const a[], int64_t stride, int* pivots, int* info,
                             int64_t count) {
  return factorise(call, table(a, n, n, stride), pivots, info, count);
}
template <class T>
cublasStatus_t getri_batched(const Call& call, int64_t n, const T* const a[], int64_t stride, const int* pivots,
                             T* const c[], int64_t c_stride, int* info, int64_t count) {
  return invert_factors(call, table(a, n, n, stride), pivots, table(c, n, n, c_stride), info, count);
}
template <class T>
cublasStatus_t getrs_batched(const Call& call, cublasOperation_t on_a, int64_t n, int64_t columns, const T* const a[],
                             int64_t stride, const int* pivots, T* const b[], int64_t b_stride, int* info,
                             int64_t count) {
  return solve_factors(call, operation_of(on_a), table(a, n, n, stride), pivots, table(b, n, columns, b_stride), info,
                       count);
}
template <class T>
cublasStatus_t matinv_batched(const Call& call, int64_t n, const T* const a[], int64_t stride, T* const c[],
                              int64_t c_stride, int* info, int64_t count) {
  return invert(call, table(a, n, n, stride), table(c, n, n, c_stride), info, count);
}
template <class T>
cublasStatus_t geqrf_batched(const Call& call, int64_t m, int64_t n, T* const a[], int64_t stride, T* const tau[],
                             int* info, int64_t count) {
  return orthogonalise(call, table(a, m, n, stride), table(tau, std::min(m, n), 1, std::min(m, n)), info, count);
}
template <class T>
cublasStatus_t gels_batched(const Call& call, cublasOperation_t on_a, int64_t m, int64_t n, int64_t columns,
                            T* const a[], int64_t stride, T* const c[], int64_t c_stride, int* info, int* infos,
                            int64_t count) {
  return least_squares(call, on_a, table(a, m, n, stride), table(c, m, columns, c_stride), info, infos, count);
}

}  // namespace devtrace::simulate::cublas

// BLAS of levels 2 and 3, and what cuBLAS has besides.
#pragma once

#include "simulate/cublas/call.h"

namespace devtrace::simulate::cublas {

// One matrix or several of one shape: at equal distances, in elements, or by a table of addresses in memory.
struct Many {
  Dense one;
  int64_t distance = 0;
  bool is_table = false;

  // When the work is done.
  Dense nth(int64_t i) const;
};

// A matrix of which the numbers on one side of the diagonal are stored, with the diagonal.
struct Square {
  enum Form { full, packed, band };

  cudaDataType type;
  const void* data;
  int64_t order;
  Fill fill;
  Form form = full;
  int64_t stride = 0;     // not of a packed one
  int64_t diagonals = 0;  // of a band: besides the main one
};

// How the other side follows.
enum class Symmetry { symmetric, hermitian };

// c = alpha op(a) op(b) + beta c, so many times.
cublasStatus_t multiply(const Call& call, Operation on_a, Operation on_b, Many a, Many b, Many c, Scalar alpha,
                        Scalar beta, int64_t count = 1);
// y = alpha op(a) x + beta y. Vectors are matrices of one row, by their step; of several at equal distances.
struct Vectors {
  Strided one;
  int64_t distance = 0;
  bool is_table = false;

  Strided nth(int64_t i) const;
};
cublasStatus_t multiply(const Call& call, Operation on_a, Many a, Vectors x, Vectors y, Scalar alpha, Scalar beta,
                        int64_t count = 1);
// ... of a matrix of which some diagonals are stored.
cublasStatus_t multiply_band(const Call& call, Operation on_a, Dense a, int64_t below, int64_t above, Strided x,
                             Strided y, Scalar alpha, Scalar beta);
cublasStatus_t multiply_symmetric(const Call& call, Square a, Symmetry symmetry, Strided x, Strided y, Scalar alpha,
                                  Scalar beta);
// c = alpha a b + beta c, or alpha b a.
cublasStatus_t multiply_symmetric(const Call& call, Square a, Symmetry symmetry, bool from_left, Dense b, Dense c,
                                  Scalar alpha, Scalar beta);

// x = op(a) x, or what op(a) makes of it is x now.
cublasStatus_t triangular(const Call& call, Square a, Operation on_a, bool unit_diagonal, Strided x, bool solve);
// c = alpha op(a) b, or alpha b op(a).
cublasStatus_t multiply_triangular(const Call& call, Square a, Operation on_a, bool unit_diagonal, bool from_left,
                                   Dense b, Dense c, Scalar alpha);
// op(a) x = alpha b, or x op(a) = alpha b; x in the place of b.
cublasStatus_t solve_triangular(const Call& call, Many a, Fill fill, Operation on_a, bool unit_diagonal, bool from_left,
                                Many b, Scalar alpha, int64_t count = 1);

// a += alpha x y^T, or y^H.
cublasStatus_t rank_one(const Call& call, Dense a, Strided x, Strided y, bool conjugated, Scalar alpha);
// a += alpha x x^T, or alpha x y^T + (alpha x y^T)^T; hermitian: ^H.
cublasStatus_t update(const Call& call, Square a, Symmetry symmetry, Strided x, Scalar alpha);
cublasStatus_t update(const Call& call, Square a, Symmetry symmetry, Strided x, Strided y, Scalar alpha);
// c = alpha op(a) op(b)^T + beta c; with `twice` and its transpose. Hermitian: ^H.
cublasStatus_t update(const Call& call, Square c, Symmetry symmetry, Operation on_both, Dense a, Dense b, bool twice,
                      Scalar alpha, Scalar beta);

// c = alpha op(a) + beta op(b).
cublasStatus_t add(const Call& call, Operation on_a, Operation on_b, Dense a, Dense b, Dense c, Scalar alpha,
                   Scalar beta);
// c = diag(x) a, or a diag(x).
cublasStatus_t multiply_diagonal(const Call& call, bool from_left, Dense a, Strided x, Dense c);
// From one form to another.
cublasStatus_t copy(const Call& call, Square from, Square to);

}  // namespace devtrace::simulate::cublas

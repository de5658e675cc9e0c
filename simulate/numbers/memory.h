// Vectors and matrices in memory of devices, for work of a library that is computed (simulate/common/library.h):
// whoever reads or writes one here reaches all of it, or the work ends.
#pragma once

#include <eigen3/Eigen/Core>

#include "simulate/common/library.h"
#include "simulate/numbers/element.h"

namespace devtrace::simulate::numbers {

template <class S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
template <class S>
using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;

// As BLAS has them: a negative step begins at the far end.
struct Strided {
  cudaDataType type;
  const void* data;
  int64_t count, step;
};

// Columns of `rows` numbers, each `stride` elements behind the one before it.
struct Dense {
  cudaDataType type;
  const void* data;
  int64_t rows, columns, stride;
};

// The numbers of cublasOperation_t and cusparseOperation_t.
enum class Operation { none, transposed, adjoint, conjugated };
// Of cublasFillMode_t and cusparseFillMode_t.
enum class Fill { lower, upper, full };

inline void* writable(const void* data) {
  return const_cast<void*>(data);
}

template <class S>
Vector<S> read(const Strided& v) {
  Vector<S> found(v.count);
  if (v.count <= 0) return found;
  const int64_t first = v.step < 0 ? (1 - v.count) * v.step : 0, size = static_cast<int64_t>(bytes_of(v.type));
  library::reads(v.data, static_cast<size_t>(((v.count - 1) * std::abs(v.step) + 1) * size));
  get(v.type, at(v.type, v.data, first), v.step, v.count, found.data());
  return found;
}

template <class S>
void write(const Strided& v, const Vector<S>& values) {
  if (v.count <= 0) return;
  const int64_t first = v.step < 0 ? (1 - v.count) * v.step : 0, size = static_cast<int64_t>(bytes_of(v.type));
  library::writes(v.data, static_cast<size_t>(((v.count - 1) * std::abs(v.step) + 1) * size));
  put(v.type, at(v.type, writable(v.data), first), v.step, v.count, values.data());
}

inline size_t extent(const Dense& m) {
  if (m.rows <= 0 || m.columns <= 0) return 0;
  return static_cast<size_t>((m.columns - 1) * m.stride + m.rows) * bytes_of(m.type);
}

template <class S>
Matrix<S> read(const Dense& m) {
  Matrix<S> found(m.rows, m.columns);
  if (!extent(m)) return found;
  library::reads(m.data, extent(m));
  for (int64_t j = 0; j < m.columns; ++j) get(m.type, at(m.type, m.data, j * m.stride), 1, m.rows, found.col(j).data());
  return found;
}

// Of a square matrix perhaps only the part on one side of the diagonal, and that.
template <class S>
void write(const Dense& m, const Matrix<S>& values, Fill fill = Fill::full) {
  if (!extent(m)) return;
  library::writes(m.data, extent(m));
  for (int64_t j = 0; j < m.columns; ++j) {
    const int64_t first = fill == Fill::lower ? std::min(j, m.rows) : 0;
    const int64_t end = fill == Fill::upper ? std::min(j + 1, m.rows) : m.rows;
    put(m.type, at(m.type, writable(m.data), j * m.stride + first), 1, end - first, values.col(j).data() + first);
  }
}

template <class S>
Matrix<S> operated(Operation operation, const Matrix<S>& m) {
  switch (operation) {
    case Operation::transposed:
      return m.transpose();
    case Operation::adjoint:
      return m.adjoint();
    case Operation::conjugated:
      return m.conjugate();
    default:
      return m;
  }
}

// The whole of a matrix of which one side of the diagonal is stored.
template <class S>
void mirror(Matrix<S>& m, Fill stored, bool hermitian) {
  for (int64_t j = 0; j < m.cols(); ++j) {
    if (hermitian) m(j, j) = S(std::real(m(j, j)));
    for (int64_t i = 0; i < j; ++i) {
      S& upper = m(i, j);
      S& lower = m(j, i);
      if (stored == Fill::lower)
        upper = hermitian ? conjugate(lower) : lower;
      else
        lower = hermitian ? conjugate(upper) : upper;
    }
  }
}

// Zeros on the other side of the diagonal, and ones on it where these are not stored.
template <class S>
void keep_triangle(Matrix<S>& m, Fill stored, bool unit_diagonal) {
  for (int64_t j = 0; j < m.cols(); ++j)
    for (int64_t i = 0; i < m.rows(); ++i) {
      if (i == j ? unit_diagonal : (stored == Fill::lower) == (i < j)) m(i, j) = S(i == j ? 1 : 0);
    }
}

}  // namespace devtrace::simulate::numbers

// Matrices of which one side of the diagonal is stored, or some diagonals, to and from memory.
#pragma once

#include <algorithm>

#include "simulate/cublas/matrices.h"

namespace devtrace::simulate::cublas {

// What is stored of a column: from this row on, so many, and where in memory.
struct Stretch {
  int64_t row, count, offset;
};

inline Stretch stretch(const Square& a, int64_t column) {
  const int64_t n = a.order, j = column, k = a.form == Square::band ? a.diagonals : n;
  const bool lower = a.fill == Fill::lower;
  const int64_t row = lower ? j : std::max<int64_t>(0, j - k), end = lower ? std::min(n, j + k + 1) : j + 1;
  if (a.form == Square::packed) return {row, end - row, lower ? j * (2 * n - j + 1) / 2 : j * (j + 1) / 2};
  if (a.form == Square::band) return {row, end - row, j * a.stride + (lower ? 0 : k - (j - row))};
  return {row, end - row, j * a.stride + row};
}

inline size_t extent(const Square& a) {
  int64_t end = 0;
  if (a.order > 0) {
    const Stretch last = stretch(a, a.order - 1);
    end = last.offset + last.count;
  }
  return static_cast<size_t>(end) * bytes_of(a.type);
}

// Zeros where nothing is stored.
template <class S>
Matrix<S> read(const Square& a) {
  Matrix<S> found = Matrix<S>::Zero(a.order, a.order);
  if (a.order <= 0) return found;
  library::reads(a.data, extent(a));
  for (int64_t j = 0; j < a.order; ++j) {
    const Stretch s = stretch(a, j);
    get(a.type, at(a.type, a.data, s.offset), 1, s.count, found.col(j).data() + s.row);
  }
  return found;
}

template <class S>
Matrix<S> read_mirrored(const Square& a, Symmetry symmetry) {
  Matrix<S> found = read<S>(a);
  mirror(found, a.fill, symmetry == Symmetry::hermitian);
  return found;
}

template <class S>
Matrix<S> read_triangle(const Square& a, bool unit_diagonal) {
  Matrix<S> found = read<S>(a);
  if (unit_diagonal) found.diagonal().setOnes();
  return found;
}

template <class S>
void write(const Square& a, const Matrix<S>& values) {
  if (a.order <= 0) return;
  library::writes(a.data, extent(a));
  for (int64_t j = 0; j < a.order; ++j) {
    const Stretch s = stretch(a, j);
    put(a.type, at(a.type, writable(a.data), s.offset), 1, s.count, values.col(j).data() + s.row);
  }
}

}  // namespace devtrace::simulate::cublas

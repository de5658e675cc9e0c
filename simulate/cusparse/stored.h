// Sparse and dense matrices as descriptors have them, out of memory and into it.
#pragma once

#include <vector>

#include "simulate/cusparse/matrix.h"

namespace devtrace::simulate::cusparse {

struct Sparse {
  int format;
  int64_t rows, columns, non_zeros;
  const void *offsets, *indices, *values;
  int offset_type, index_type;
  int64_t base;
  cudaDataType type;
  Fill fill;
  bool unit_diagonal;
};

inline Sparse sparse_of(const void* descriptor) {
  const library::Object& d = *library::object(descriptor);
  return {d.modes[kFormat],
          static_cast<int64_t>(d.numbers[kRows]),
          static_cast<int64_t>(d.numbers[kColumns]),
          static_cast<int64_t>(d.numbers[kNonZeros]),
          d.pointers[kOffsets],
          d.pointers[kIndices],
          d.pointers[kValues],
          d.modes[kOffsetType],
          d.modes[kIndexType],
          d.modes[kIndexBase],
          static_cast<cudaDataType>(d.modes[kValueType]),
          static_cast<Fill>(d.modes[kFill]),
          d.modes[kDiagonal] == CUSPARSE_DIAG_TYPE_UNIT};
}

inline bool is_computed(const Sparse& m) {
  return (m.format == CUSPARSE_FORMAT_CSR || m.format == CUSPARSE_FORMAT_CSC || m.format == CUSPARSE_FORMAT_COO) &&
         is_known(m.type);
}

// A dense one, by columns or by rows: as many of these as its other side has numbers.
struct Block {
  Dense stored;
  bool by_rows;
};
inline Block dense_of(const void* descriptor) {
  const library::Object& d = *library::object(descriptor);
  const auto rows = static_cast<int64_t>(d.numbers[kRows]), columns = static_cast<int64_t>(d.numbers[kColumns]);
  const bool by_rows = d.modes[kOrder] == CUSPARSE_ORDER_ROW;
  return {{static_cast<cudaDataType>(d.modes[kValueType]), d.pointers[0], by_rows ? columns : rows,
           by_rows ? rows : columns, static_cast<int64_t>(d.numbers[kStride])},
          by_rows};
}

template <class S>
Matrix<S> read(const Block& block) {
  Matrix<S> found = numbers::read<S>(block.stored);
  return block.by_rows ? Matrix<S>(found.transpose()) : found;
}
template <class S>
void write(const Block& block, const Matrix<S>& values) {
  if (block.by_rows)
    numbers::write<S>(block.stored, values.transpose());
  else
    numbers::write(block.stored, values);
}

inline std::vector<int64_t> read_indices(const void* from, int type, int64_t count) {
  const size_t size = type == CUSPARSE_INDEX_64I ? 8 : type == CUSPARSE_INDEX_32I ? 4 : 2;
  library::reads(from, static_cast<size_t>(count) * size);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(size == 8   ? static_cast<const int64_t*>(from)[i]
                  : size == 4 ? static_cast<const int32_t*>(from)[i]
                              : static_cast<const uint16_t*>(from)[i]);
  return all;
}

// visit(row, column, value) for each number that is stored; one that lies outside ends the work, as it would lie in
// nobody's memory.
template <class S, class Visit>
void for_each(const Sparse& m, const Visit& visit) {
  const bool coordinates = m.format == CUSPARSE_FORMAT_COO, by_rows = m.format != CUSPARSE_FORMAT_CSC;
  const int64_t lines = by_rows ? m.rows : m.columns;
  const std::vector<int64_t> lead = read_indices(m.offsets, m.offset_type, coordinates ? m.non_zeros : lines + 1);
  const std::vector<int64_t> indices = read_indices(m.indices, m.index_type, m.non_zeros);
  const Vector<S> values = numbers::read<S>(Strided{m.type, m.values, m.non_zeros, 1});
  const auto one = [&](int64_t line, int64_t k) {
    const int64_t other = indices[static_cast<size_t>(k)] - m.base;
    const int64_t row = by_rows ? line : other, column = by_rows ? other : line;
    if (row < 0 || row >= m.rows || column < 0 || column >= m.columns) library::give_up();
    visit(row, column, values[k]);
  };
  if (coordinates) {
    for (int64_t k = 0; k < m.non_zeros; ++k) one(lead[static_cast<size_t>(k)] - m.base, k);
    return;
  }
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t begin = lead[static_cast<size_t>(line)] - m.base, end = lead[static_cast<size_t>(line) + 1] - m.base;
    if (begin < 0 || end > m.non_zeros) library::give_up();
    for (int64_t k = begin; k < end; ++k) one(line, k);
  }
}

}  // namespace devtrace::simulate::cusparse

// cuSPARSE: handles keep their stream and mode, matrices their size; what computes is generated (tools/library.py).
#include <algorithm>
#include <cstring>

#include "simulate/cusparse/matrix.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace lib = devtrace::simulate::library;

namespace {

using namespace devtrace::simulate::cusparse;

// Of a legacy matrix descriptor.
enum LegacyMode { kLegacyType, kLegacyFill, kLegacyDiagonal, kLegacyBase };

struct Types {
  int format, offsets, indices, base, values;
};

template <typename Descriptor>
cusparseStatus_t create_matrix(Descriptor* descriptor, int64_t rows, int64_t columns, int64_t non_zeros,
                               std::initializer_list<const void*> memory, Types types) {
  if (!descriptor) return CUSPARSE_STATUS_INVALID_VALUE;
  lib::Object* made = lib::make();
  if (!made) return CUSPARSE_STATUS_NOT_INITIALIZED;
  made->numbers[kRows] = static_cast<size_t>(rows);
  made->numbers[kColumns] = static_cast<size_t>(columns);
  made->numbers[kNonZeros] = static_cast<size_t>(non_zeros);
  const auto set_mode = [&](int mode, int value) { made->modes[mode] = value; };
  set_mode(kFormat, types.format), set_mode(kOffsetType, types.offsets), set_mode(kIndexType, types.indices);
  set_mode(kIndexBase, types.base), set_mode(kValueType, types.values);
  made->describe(memory);
  *descriptor = reinterpret_cast<Descriptor>(made);
  return CUSPARSE_STATUS_SUCCESS;
}

struct Shape {
  int64_t rows, columns, stride;
};

template <typename Descriptor>
cusparseStatus_t create_dense(Descriptor* descriptor, Shape shape, const void* values, cudaDataType type, int order) {
  if (shape.stride < (order == CUSPARSE_ORDER_ROW ? shape.columns : shape.rows)) return CUSPARSE_STATUS_INVALID_VALUE;
  const cusparseStatus_t status =
      create_matrix(descriptor, shape.rows, shape.columns, 0, {values}, {kDense, 0, 0, 0, type});
  if (status) return status;
  lib::object(*descriptor)->numbers[kStride] = static_cast<size_t>(shape.stride);
  lib::object(*descriptor)->modes[kOrder] = order;
  return status;
}

cusparseStatus_t get_values(const void* descriptor, void** values) {
  if (!lib::alive(descriptor)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (!values) return CUSPARSE_STATUS_INVALID_VALUE;
  *values = lib::object(descriptor)->pointers[0];
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t set(const void* handle, int mode, int value) {
  if (!lib::alive(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  lib::object(handle)->modes[mode] = value;
  return CUSPARSE_STATUS_SUCCESS;
}

int get(const void* handle, int mode) {
  return lib::alive(handle) ? lib::object(handle)->modes[mode] : 0;
}

struct Row {
  cusparseStatus_t status;
  const char *name, *text;
};
#define ROW(status, text) \
  { status, #status, text }
constexpr Row kStatus[] = {
    ROW(CUSPARSE_STATUS_SUCCESS, "success"),
    ROW(CUSPARSE_STATUS_NOT_INITIALIZED, "initialization error"),
    ROW(CUSPARSE_STATUS_ALLOC_FAILED, "out of memory"),
    ROW(CUSPARSE_STATUS_INVALID_VALUE, "invalid value"),
    ROW(CUSPARSE_STATUS_ARCH_MISMATCH, "architecture mismatch"),
    ROW(CUSPARSE_STATUS_EXECUTION_FAILED, "kernel launch failure"),
    ROW(CUSPARSE_STATUS_INTERNAL_ERROR, "internal error"),
    ROW(CUSPARSE_STATUS_ZERO_PIVOT, "zero pivot"),
    ROW(CUSPARSE_STATUS_NOT_SUPPORTED, "operation not supported"),
};
#undef ROW

}  // namespace

extern "C" {

cusparseStatus_t CUSPARSEAPI cusparseGetVersion(cusparseHandle_t, int* version) {
  if (!version) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = CUSPARSE_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t CUSPARSEAPI cusparseGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUSPARSE_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? CUSPARSE_VER_MAJOR : type == MINOR_VERSION ? CUSPARSE_VER_MINOR : CUSPARSE_VER_PATCH;
  return CUSPARSE_STATUS_SUCCESS;
}
const char* CUSPARSEAPI cusparseGetErrorName(cusparseStatus_t status) {
  for (const Row& row : kStatus)
    if (row.status == status) return row.name;
  return "CUSPARSE_STATUS_UNKNOWN";
}
const char* CUSPARSEAPI cusparseGetErrorString(cusparseStatus_t status) {
  for (const Row& row : kStatus)
    if (row.status == status) return row.text;
  return "unknown error";
}

cusparseStatus_t CUSPARSEAPI cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  if (!lib::alive(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  lib::object(handle)->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t CUSPARSEAPI cusparseGetStream(cusparseHandle_t handle, cudaStream_t* stream) {
  if (!lib::alive(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *stream = lib::object(handle)->stream;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t CUSPARSEAPI cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
  return set(handle, kPointer, mode);
}
cusparseStatus_t CUSPARSEAPI cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t* mode) {
  if (!lib::alive(handle)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *mode = static_cast<cusparsePointerMode_t>(get(handle, kPointer));
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t CUSPARSEAPI cusparseSetMatType(cusparseMatDescr_t d, cusparseMatrixType_t type) {
  return set(d, kLegacyType, type);
}
cusparseMatrixType_t CUSPARSEAPI cusparseGetMatType(const cusparseMatDescr_t d) {
  return static_cast<cusparseMatrixType_t>(get(d, kLegacyType));
}
cusparseStatus_t CUSPARSEAPI cusparseSetMatFillMode(cusparseMatDescr_t d, cusparseFillMode_t mode) {
  return set(d, kLegacyFill, mode);
}
cusparseFillMode_t CUSPARSEAPI cusparseGetMatFillMode(const cusparseMatDescr_t d) {
  return static_cast<cusparseFillMode_t>(get(d, kLegacyFill));
}
cusparseStatus_t CUSPARSEAPI cusparseSetMatDiagType(cusparseMatDescr_t d, cusparseDiagType_t type) {
  return set(d, kLegacyDiagonal, type);
}
cusparseDiagType_t CUSPARSEAPI cusparseGetMatDiagType(const cusparseMatDescr_t d) {
  return static_cast<cusparseDiagType_t>(get(d, kLegacyDiagonal));
}
cusparseStatus_t CUSPARSEAPI cusparseSetMatIndexBase(cusparseMatDescr_t d, cusparseIndexBase_t base) {
  return set(d, kLegacyBase, base);
}
cusparseIndexBase_t CUSPARSEAPI cusparseGetMatIndexBase(const cusparseMatDescr_t d) {
  return static_cast<cusparseIndexBase_t>(get(d, kLegacyBase));
}

// By rows, by columns, and by coordinates; and of memory that is only read.
#define CREATE_COMPRESSED(name, format, Descriptor, Pointer)                                                         \
  cusparseStatus_t CUSPARSEAPI cusparseCreate##name(Descriptor* d, int64_t rows, int64_t columns, int64_t non_zeros, \
                                                    Pointer offsets, Pointer indices, Pointer values,                \
                                                    cusparseIndexType_t offset_type, cusparseIndexType_t index_type, \
                                                    cusparseIndexBase_t base, cudaDataType type) {                   \
    return create_matrix(d, rows, columns, non_zeros, {offsets, indices, values},                                    \
                         {CUSPARSE_FORMAT_##format, offset_type, index_type, base, type});                           \
  }
CREATE_COMPRESSED(Csr, CSR, cusparseSpMatDescr_t, void*)
CREATE_COMPRESSED(ConstCsr, CSR, cusparseConstSpMatDescr_t, const void*)
CREATE_COMPRESSED(Csc, CSC, cusparseSpMatDescr_t, void*)
CREATE_COMPRESSED(ConstCsc, CSC, cusparseConstSpMatDescr_t, const void*)
#undef CREATE_COMPRESSED
cusparseStatus_t CUSPARSEAPI cusparseCreateCoo(cusparseSpMatDescr_t* d, int64_t rows, int64_t columns,
                                               int64_t non_zeros, void* row_indices, void* indices, void* values,
                                               cusparseIndexType_t index_type, cusparseIndexBase_t base,
                                               cudaDataType type) {
  return create_matrix(d, rows, columns, non_zeros, {row_indices, indices, values},
                       {CUSPARSE_FORMAT_COO, index_type, index_type, base, type});
}
cusparseStatus_t CUSPARSEAPI cusparseCreateConstCoo(cusparseConstSpMatDescr_t* d, int64_t rows, int64_t columns,
                                                    int64_t non_zeros, const void* row_indices, const void* indices,
                                                    const void* values, cusparseIndexType_t index_type,
                                                    cusparseIndexBase_t base, cudaDataType type) {
  return create_matrix(d, rows, columns, non_zeros, {row_indices, indices, values},
                       {CUSPARSE_FORMAT_COO, index_type, index_type, base, type});
}
cusparseStatus_t CUSPARSEAPI cusparseSpMatSetValues(cusparseSpMatDescr_t d, void* values) {
  if (!lib::alive(d)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  lib::object(d)->pointers[kValues] = values;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t CUSPARSEAPI cusparseSpMatSetAttribute(cusparseSpMatDescr_t d, cusparseSpMatAttribute_t attribute,
                                                       void* data, size_t size) {
  if (!lib::alive(d)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (!data || size != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
  std::memcpy(&lib::object(d)->modes[attribute == CUSPARSE_SPMAT_FILL_MODE ? kFill : kDiagonal], data, size);
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t CUSPARSEAPI cusparseSpMatGetAttribute(cusparseConstSpMatDescr_t d, cusparseSpMatAttribute_t attribute,
                                                       void* data, size_t size) {
  if (!lib::alive(d)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (!data || size != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
  std::memcpy(data, &lib::object(d)->modes[attribute == CUSPARSE_SPMAT_FILL_MODE ? kFill : kDiagonal], size);
  return CUSPARSE_STATUS_SUCCESS;
}

// Vectors are dense matrices of one column.
#define CREATE_DENSE(kind, Descriptor, Pointer)                                                                    \
  cusparseStatus_t CUSPARSEAPI cusparseCreate##kind##Vec(Descriptor##VecDescr_t* d, int64_t size, Pointer values,  \
                                                         cudaDataType type) {                                      \
    return create_dense(d, {size, 1, std::max<int64_t>(1, size)}, values, type, CUSPARSE_ORDER_COL);               \
  }                                                                                                                \
  cusparseStatus_t CUSPARSEAPI cusparseCreate##kind##Mat(Descriptor##MatDescr_t* d, int64_t rows, int64_t columns, \
                                                         int64_t stride, Pointer values, cudaDataType type,        \
                                                         cusparseOrder_t order) {                                  \
    return create_dense(d, {rows, columns, stride}, values, type, order);                                          \
  }
CREATE_DENSE(Dn, cusparseDn, void*)
CREATE_DENSE(ConstDn, cusparseConstDn, const void*)
#undef CREATE_DENSE
cusparseStatus_t CUSPARSEAPI cusparseDnVecGetValues(cusparseDnVecDescr_t d, void** values) {
  return get_values(d, values);
}
cusparseStatus_t CUSPARSEAPI cusparseDnMatGetValues(cusparseDnMatDescr_t d, void** values) {
  return get_values(d, values);
}

cusparseStatus_t CUSPARSEAPI cusparseSpMatGetSize(cusparseConstSpMatDescr_t d, int64_t* rows, int64_t* columns,
                                                  int64_t* non_zeros) {
  if (!lib::alive(d)) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *rows = static_cast<int64_t>(lib::object(d)->numbers[kRows]);
  *columns = static_cast<int64_t>(lib::object(d)->numbers[kColumns]);
  // Of a product that was not computed: what its creator said, which for a result is none.
  *non_zeros = static_cast<int64_t>(lib::object(d)->numbers[kNonZeros]);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // extern "C"

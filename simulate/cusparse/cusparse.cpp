// cuSPARSE: handles keep their stream and mode, matrices their size; what computes is generated (tools/library.py).
#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <cusparse.h>
#pragma GCC visibility pop
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace lib = devtrace::simulate::library;

namespace {

// Of a handle.
enum Mode { kPointer };
// Of a sparse matrix.
enum Number { kRows, kColumns, kNonZeros };
// Of a legacy matrix descriptor.
enum Kind { kType, kFill, kDiagonal, kBase };

template <typename Descriptor>
cusparseStatus_t create_matrix(Descriptor* descriptor, int64_t rows, int64_t columns, int64_t non_zeros,
                               std::initializer_list<const void*> memory) {
  if (!descriptor) return CUSPARSE_STATUS_INVALID_VALUE;
  lib::Object* made = lib::make();
  if (!made) return CUSPARSE_STATUS_NOT_INITIALIZED;
  made->numbers[kRows] = static_cast<size_t>(rows);
  made->numbers[kColumns] = static_cast<size_t>(columns);
  made->numbers[kNonZeros] = static_cast<size_t>(non_zeros);
  made->describe(memory);
  *descriptor = reinterpret_cast<Descriptor>(made);
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
  return set(d, kType, type);
}
cusparseMatrixType_t CUSPARSEAPI cusparseGetMatType(const cusparseMatDescr_t d) {
  return static_cast<cusparseMatrixType_t>(get(d, kType));
}
cusparseStatus_t CUSPARSEAPI cusparseSetMatFillMode(cusparseMatDescr_t d, cusparseFillMode_t mode) {
  return set(d, kFill, mode);
}
cusparseFillMode_t CUSPARSEAPI cusparseGetMatFillMode(const cusparseMatDescr_t d) {
  return static_cast<cusparseFillMode_t>(get(d, kFill));
}
cusparseStatus_t CUSPARSEAPI cusparseSetMatDiagType(cusparseMatDescr_t d, cusparseDiagType_t type) {
  return set(d, kDiagonal, type);
}
cusparseDiagType_t CUSPARSEAPI cusparseGetMatDiagType(const cusparseMatDescr_t d) {
  return static_cast<cusparseDiagType_t>(get(d, kDiagonal));
}
cusparseStatus_t CUSPARSEAPI cusparseSetMatIndexBase(cusparseMatDescr_t d, cusparseIndexBase_t base) {
  return set(d, kBase, base);
}
cusparseIndexBase_t CUSPARSEAPI cusparseGetMatIndexBase(const cusparseMatDescr_t d) {
  return static_cast<cusparseIndexBase_t>(get(d, kBase));
}

cusparseStatus_t CUSPARSEAPI cusparseCreateCsr(cusparseSpMatDescr_t* d, int64_t rows, int64_t columns,
                                               int64_t non_zeros, void* offsets, void* indices, void* values,
                                               cusparseIndexType_t, cusparseIndexType_t, cusparseIndexBase_t,
                                               cudaDataType) {
  return create_matrix(d, rows, columns, non_zeros, {offsets, indices, values});
}
cusparseStatus_t CUSPARSEAPI cusparseCreateConstCsr(cusparseConstSpMatDescr_t* d, int64_t rows, int64_t columns,
                                                    int64_t non_zeros, const void* offsets, const void* indices,
                                                    const void* values, cusparseIndexType_t, cusparseIndexType_t,
                                                    cusparseIndexBase_t, cudaDataType) {
  return create_matrix(d, rows, columns, non_zeros, {offsets, indices, values});
}
cusparseStatus_t CUSPARSEAPI cusparseCreateCsc(cusparseSpMatDescr_t* d, int64_t rows, int64_t columns,
                                               int64_t non_zeros, void* offsets, void* indices, void* values,
                                               cusparseIndexType_t, cusparseIndexType_t, cusparseIndexBase_t,
                                               cudaDataType) {
  return create_matrix(d, rows, columns, non_zeros, {offsets, indices, values});
}
cusparseStatus_t CUSPARSEAPI cusparseCreateCoo(cusparseSpMatDescr_t* d, int64_t rows, int64_t columns,
                                               int64_t non_zeros, void* offsets, void* indices, void* values,
                                               cusparseIndexType_t, cusparseIndexBase_t, cudaDataType) {
  return create_matrix(d, rows, columns, non_zeros, {offsets, indices, values});
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

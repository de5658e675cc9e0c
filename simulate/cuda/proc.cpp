// Looking driver functions up by name. Answers are this library's own functions, not what the process's symbol search
// would find. So does the driver, and a tool that wants to see such calls has to hook the look-up.
#include <cstring>
#include <string>

#include "simulate/cuda/api.h"
#include "simulate/cuda/symbols.h"

namespace {

struct Row {
  const char* name;
  int since;  // CUDA version, 12030 for 12.3
  const char* symbol;
};
constexpr Row kVersions[] = {
#include "driver_versions.inc"
};

}  // namespace

extern "C" {

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  const char* symbol = nullptr;
  bool newer = false;
  for (const Row& row : kVersions) {
    if (std::strcmp(row.name, name)) continue;
    if (row.since <= version)
      symbol = row.symbol;
    else
      newer = true;
  }
  if (symbol) {
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
      *function = simulate::exported_function((std::string(symbol) + "_ptsz").c_str());
      if (!*function) *function = simulate::exported_function((std::string(symbol) + "_ptds").c_str());
    }
    if (!*function) *function = simulate::exported_function(symbol);
  }
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : newer   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// Undocumented tables, which libraries of the vendor ask for and do without.
CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid*) {
  if (table) *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

#undef cuGetProcAddress
__attribute__((visibility("default"))) CUresult CUDAAPI cuGetProcAddress(const char* name, void** function, int version,
                                                                         cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"

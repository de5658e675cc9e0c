// Looking driver functions up by name. Answers are this library's own functions, not what the process's symbol search
// would find. So does the driver, and a tool that wants to see such calls has to hook the look-up.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
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

// NVIDIA's runtime of every version asks for this table when it starts. One that gets here lies in a file without
// names, else its functions had been sent to the stand-in (../static_runtime).
constexpr unsigned char kRuntimesTable[] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                            0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};

void tell_of_runtime(const void* in) {
  static std::mutex mutex;
  static auto* const told = new std::set<std::string>;
  const char* const verbose = std::getenv("DEVTRACE_SIM_VERBOSE");
  Dl_info info{};
  if ((verbose && !std::strcmp(verbose, "0")) || !dladdr(in, &info) || !info.dli_fname) return;
  {
    const std::lock_guard lock(mutex);
    if (!told->insert(info.dli_fname).second) return;
  }
  std::fprintf(stderr,
               "devtrace: %s: its CUDA runtime is inside it and has no names, so that it cannot be simulated, and its "
               "calls fail: link with `-cudart shared`, or do not strip it\n",
               info.dli_fname);
}

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
CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid* id) {
  if (id && !std::memcmp(id, kRuntimesTable, sizeof kRuntimesTable)) tell_of_runtime(__builtin_return_address(0));
  if (table) *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

#undef cuGetProcAddress
__attribute__((visibility("default"))) CUresult CUDAAPI cuGetProcAddress(const char* name, void** function, int version,
                                                                         cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"

// The driver's log of errors: nothing is ever written to it here. PyTorch 2.15 registers for it as soon as it is
// imported.
#include <mutex>
#include <set>

#include "simulate/cuda/api.h"

struct CUlogsCallbackEntry_st {};

namespace {

std::mutex g_mutex;

std::set<CUlogsCallbackHandle>& registered() {
  static auto* handles = new std::set<CUlogsCallbackHandle>;  // read until the process is gone
  return *handles;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback function, void*, CUlogsCallbackHandle* handle) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_mutex);
  const CUlogsCallbackHandle made = *registered().insert(new CUlogsCallbackEntry_st).first;
  if (handle) *handle = made;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  const std::lock_guard lock(g_mutex);
  if (!registered().erase(handle)) return CUDA_ERROR_INVALID_VALUE;
  delete handle;
  return CUDA_SUCCESS;
}

}  // extern "C"

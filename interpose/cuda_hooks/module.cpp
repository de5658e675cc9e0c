// Where kernels come from: their code says which of their parameters are addresses. What is loaded is remembered after
// the original has taken it, what is unloaded is forgotten before: its handle may come back as another's.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/cuda/hook.h"
#include "interpose/cuda/kernel_images.h"
#include "tracker/events.h"

using devtrace::interpose::Call;
namespace images = devtrace::interpose::kernel_images;

// ---- Other handles of the same kernel.

#define ANOTHER_HANDLE(HOOK_KIND, CALL, symbol, made_type, from_type)         \
  HOOK_KIND(symbol, (made_type * made, from_type from)) {                     \
    const auto result = CALL(symbol, (made, from));                           \
    if (result == 0 && made) images::same_kernel(*made, (const void*)(from)); \
    return result;                                                            \
  }
ANOTHER_HANDLE(RUNTIME_HOOK, CALL_RUNTIME, __cudaGetKernel, cudaKernel_t, const void*)
ANOTHER_HANDLE(RUNTIME_HOOK, CALL_RUNTIME, cudaGetKernel, cudaKernel_t, const void*)
ANOTHER_HANDLE(RUNTIME_HOOK, CALL_RUNTIME, cudaGetFuncBySymbol, cudaFunction_t, const void*)
ANOTHER_HANDLE(DRIVER_HOOK, CALL_DRIVER, cuKernelGetFunction, CUfunction, CUkernel)

// ---- Modules and libraries. The runtime's handles are the driver's.

#define GET_KERNEL(HOOK_KIND, CALL, symbol, kernel_type, container_type)                  \
  HOOK_KIND(symbol, (kernel_type * kernel, container_type container, const char* name)) { \
    const auto result = CALL(symbol, (kernel, container, name));                          \
    if (result == 0 && kernel) images::kernel_of(*kernel, container, name);               \
    return result;                                                                        \
  }
GET_KERNEL(RUNTIME_HOOK, CALL_RUNTIME, cudaLibraryGetKernel, cudaKernel_t, cudaLibrary_t)
GET_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuLibraryGetKernel, CUkernel, CUlibrary)
GET_KERNEL(DRIVER_HOOK, CALL_DRIVER, cuModuleGetFunction, CUfunction, CUmodule)

#define LOAD_LIBRARY(HOOK_KIND, CALL, symbol, on_loaded, library_type, what_type, jit_option, library_option)      \
  HOOK_KIND(symbol, (library_type * library, what_type what, jit_option * jit_options, void** jit_values,          \
                     unsigned jit_count, library_option* options, void** values, unsigned count)) {                \
    const auto result = CALL(symbol, (library, what, jit_options, jit_values, jit_count, options, values, count)); \
    if (result == 0 && library) on_loaded(*library, what);                                                         \
    return result;                                                                                                 \
  }
LOAD_LIBRARY(RUNTIME_HOOK, CALL_RUNTIME, cudaLibraryLoadData, images::loaded, cudaLibrary_t, const void*, cudaJitOption,
             cudaLibraryOption)
LOAD_LIBRARY(RUNTIME_HOOK, CALL_RUNTIME, cudaLibraryLoadFromFile, images::loaded_file, cudaLibrary_t, const char*,
             cudaJitOption, cudaLibraryOption)
LOAD_LIBRARY(DRIVER_HOOK, CALL_DRIVER, cuLibraryLoadData, images::loaded, CUlibrary, const void*, CUjit_option,
             CUlibraryOption)
LOAD_LIBRARY(DRIVER_HOOK, CALL_DRIVER, cuLibraryLoadFromFile, images::loaded_file, CUlibrary, const char*, CUjit_option,
             CUlibraryOption)

#define LOAD_MODULE(symbol, on_loaded, what_type)                   \
  DRIVER_HOOK(symbol, (CUmodule * module, what_type what)) {        \
    const CUresult result = CALL_DRIVER(symbol, (module, what));    \
    if (result == CUDA_SUCCESS && module) on_loaded(*module, what); \
    return result;                                                  \
  }
LOAD_MODULE(cuModuleLoad, images::loaded_file, const char*)
LOAD_MODULE(cuModuleLoadData, images::loaded, const void*)
LOAD_MODULE(cuModuleLoadFatBinary, images::loaded, const void*)

DRIVER_HOOK(cuModuleLoadDataEx,
            (CUmodule * module, const void* image, unsigned count, CUjit_option* options, void** values)) {
  const CUresult result = CALL_DRIVER(cuModuleLoadDataEx, (module, image, count, options, values));
  if (result == CUDA_SUCCESS && module) images::loaded(*module, image);
  return result;
}

DRIVER_HOOK(cuLibraryGetModule, (CUmodule * module, CUlibrary library)) {
  const CUresult result = CALL_DRIVER(cuLibraryGetModule, (module, library));
  if (result == CUDA_SUCCESS && module) images::same_image(*module, library);
  return result;
}

#define UNLOAD(HOOK_KIND, CALL, symbol, container_type) \
  HOOK_KIND(symbol, (container_type container)) {       \
    const Call call;                                    \
    if (call.entering()) {                              \
      images::unloaded(container);                      \
      devtrace::events::kernels_unloaded();             \
    }                                                   \
    return CALL(symbol, (container));                   \
  }
UNLOAD(RUNTIME_HOOK, CALL_RUNTIME, cudaLibraryUnload, cudaLibrary_t)
UNLOAD(DRIVER_HOOK, CALL_DRIVER, cuModuleUnload, CUmodule)
UNLOAD(DRIVER_HOOK, CALL_DRIVER, cuLibraryUnload, CUlibrary)

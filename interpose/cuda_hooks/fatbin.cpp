// What nvcc's code calls when its library is loaded and unloaded; in no public header. Which image a kernel comes from
// is remembered after the original has taken it, and forgotten before it goes.

#include <cuda_runtime_api.h>

#include "interpose/cuda/kernel_images.h"
#include "interpose/linking/cuda_runtimes.h"
#include "interpose/linking/original.h"
#include "tracker/events.h"

namespace images = devtrace::interpose::kernel_images;

extern "C" {
DEVTRACE_EXPORT void** __cudaRegisterFatBinary(void* wrapper);
DEVTRACE_EXPORT void __cudaRegisterFunction(void** handle, const char* stub, char* symbol, const char* name, int limit,
                                            void* thread, void* block, void* block_shape, void* grid, int* warp);
DEVTRACE_EXPORT void __cudaUnregisterFatBinary(void** handle);
}

void** __cudaRegisterFatBinary(void* wrapper) {
  // Whose constructors run now may have brought a runtime along; in which the image is registered must be right at
  // once.
  devtrace::interpose::cuda_runtimes::notice();
  const auto original = ORIGINAL(__cudaRegisterFatBinary);
  if (!original) return nullptr;
  void** const handle = original(wrapper);
  if (handle) images::fat_binary(handle, wrapper);
  return handle;
}

void __cudaRegisterFunction(void** handle, const char* stub, char* symbol, const char* name, int limit, void* thread,
                            void* block, void* block_shape, void* grid, int* warp) {
  images::kernel_of_fat_binary(handle, stub, name);
  if (const auto original = ORIGINAL(__cudaRegisterFunction))
    original(handle, stub, symbol, name, limit, thread, block, block_shape, grid, warp);
}

void __cudaUnregisterFatBinary(void** handle) {
  images::fat_binary_gone(handle);
  devtrace::events::kernels_unloaded();
  if (const auto original = ORIGINAL(__cudaUnregisterFatBinary)) original(handle);
}

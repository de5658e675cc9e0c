// Modules, libraries, functions and occupancy of the driver API.
#include "simulate/model/kernels/module.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/kernels/computed.h"

namespace {

using simulate::Container;
using simulate::Function;

bool file_bytes(const char* path, std::vector<uint8_t>* bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  bytes->assign(std::istreambuf_iterator<char>(in), {});
  bytes->push_back(0);  // PTX is text that ends with a zero
  return true;
}

template <typename T>
CUresult open_container(T** out, const void* data, const char* path) {
  if (!out || (!data && !path)) return CUDA_ERROR_INVALID_VALUE;
  auto* c = new T;
  if (path) {
    if (!file_bytes(path, &c->copy)) {
      delete c;
      return CUDA_ERROR_FILE_NOT_FOUND;
    }
    data = c->copy.data();
  }
  c->data = data;
  if (CUresult e = simulate::load(*c)) {
    delete c;
    return e;
  }
  simulate::handles<T>().add(c);
  *out = c;
  return CUDA_SUCCESS;
}

template <typename T>
CUresult close_container(T* c) {
  simulate::finish_work();
  if (!simulate::handles<T>().remove(c)) return CUDA_ERROR_INVALID_HANDLE;
  // The object and its functions stay: a program may unload a module whose kernels graphs still name.
  for (auto& [name, function] : c->functions) simulate::handles<Function>().remove(function);
  return CUDA_SUCCESS;
}

CUresult function_attribute(const Function& f, int attribute, int* value) {
  const simulate::GpuModel& gpu_model = *simulate::settings().gpu_model;
  static const devtrace::device::KernelFacts kUnknown;
  const devtrace::device::KernelFacts& facts = f.facts ? *f.facts : kUnknown;
  const simulate::Needs needs = simulate::needs_of(f);
  int own = gpu_model.architecture();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = needs.max_threads;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = needs.static_shared;
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = needs.constant;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = needs.local;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = needs.registers;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      // Who asks chooses by it what the kernel was compiled with: CUB the elements a block takes.
      if (const auto by = simulate::computed_architecture(f))
        *value = *by;
      else
        *value = facts.ptx ? facts.ptx : facts.architecture ? facts.architecture : own;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = facts.architecture ? facts.architecture : own;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = f.max_dynamic_shared ? f.max_dynamic_shared : (48 << 10) - needs.static_shared;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      break;
    default:
      *value = 0;
      break;
  }
  return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(Function& f, int attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    const int fixed = simulate::needs_of(f).static_shared;
    if (value < 0 || static_cast<size_t>(value + fixed) > simulate::settings().gpu_model->shared_per_block_optin)
      return CUDA_ERROR_INVALID_VALUE;
    f.max_dynamic_shared = value;
  }
  return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult parameter_info(Function* f, size_t index, size_t* offset, size_t* size) {
  if (simulate::settings().old_driver) return CUDA_ERROR_NOT_SUPPORTED;
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (!offset || !f->facts || !f->facts->parameters_known || index >= f->facts->parameters.size())
    return CUDA_ERROR_INVALID_VALUE;
  *offset = f->facts->parameters[index].offset;
  if (size) *size = f->facts->parameters[index].size;
  return CUDA_SUCCESS;
}

CUresult get_function(Container* container, const char* name, void** out) {
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  Function* f = simulate::find_function(*container, name);
  *out = f;
  return f ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult variable(Container* container, const char* name, CUdeviceptr* address, size_t* size) {
  REQUIRE_CONTEXT(context);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr at = simulate::find_variable(*container, name, context->device, size);
  if (!at) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = at;
  return CUDA_SUCCESS;
}

// Blocks of `threads` with `shared` dynamic bytes that fit a multiprocessor at once.
int blocks_per_multiprocessor(const Function& f, int threads, size_t shared) {
  const simulate::GpuModel& gpu_model = *simulate::settings().gpu_model;
  const simulate::Needs needs = simulate::needs_of(f);
  if (threads <= 0 || threads > needs.max_threads) return 0;
  int warps = (threads + 31) / 32;
  int blocks = std::min(gpu_model.blocks_per_multiprocessor, gpu_model.threads_per_multiprocessor / (warps * 32));
  const int registers = needs.registers;
  if (registers > 0) blocks = std::min(blocks, 65536 / ((registers + 7) / 8 * 8 * 32 * warps));
  size_t bytes = shared + static_cast<size_t>(needs.static_shared) + 1024;  // the driver keeps 1 KiB a block
  blocks = std::min(blocks, static_cast<int>(gpu_model.shared_per_multiprocessor / bytes));
  return std::max(blocks, 0);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  REQUIRE_CONTEXT(context);
  return open_container(module, image, nullptr);
}
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}
CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* path) {
  REQUIRE_CONTEXT(context);
  return open_container(module, nullptr, path);
}
CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  TRY(ready());
  return close_container(module);
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  TRY(ready());
  if (!simulate::handles<CUmod_st>().has(module)) return CUDA_ERROR_INVALID_HANDLE;
  TRY(get_function(module, name, reinterpret_cast<void**>(function)));
  (*function)->module = module;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* address, size_t* size, CUmodule module, const char* name) {
  if (!simulate::handles<CUmod_st>().has(module)) return CUDA_ERROR_INVALID_HANDLE;
  return variable(module, name, address, size);
}
CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  TRY(ready());
  if (!simulate::handles<CUmod_st>().has(module) || !count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->contents.kernels.size());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int,
                                   CUlibraryOption*, void**, unsigned int) {
  TRY(ready());
  return open_container(library, code, nullptr);
}
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned int,
                                       CUlibraryOption*, void**, unsigned int) {
  TRY(ready());
  return open_container(library, nullptr, path);
}
CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  TRY(ready());
  return close_container(library);
}
CUresult CUDAAPI cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  TRY(ready());
  if (!simulate::handles<CUlib_st>().has(library)) return CUDA_ERROR_INVALID_HANDLE;
  TRY(get_function(library, name, reinterpret_cast<void**>(kernel)));
  (*kernel)->library = library;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  TRY(ready());
  if (!simulate::handles<CUlib_st>().has(library) || !module) return CUDA_ERROR_INVALID_VALUE;
  return open_container(module, library->data, nullptr);
}
CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* address, size_t* size, CUlibrary library, const char* name) {
  if (!simulate::handles<CUlib_st>().has(library)) return CUDA_ERROR_INVALID_HANDLE;
  return variable(library, name, address, size);
}
CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  TRY(ready());
  if (!simulate::handles<CUlib_st>().has(library) || !count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(library->contents.kernels.size());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary library) {
  TRY(ready());
  if (!simulate::handles<CUlib_st>().has(library) || !kernels) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [name, facts] : library->contents.kernels) {
    if (count-- == 0) break;
    *kernels++ = reinterpret_cast<CUkernel>(simulate::find_function(*library, name.c_str()));
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  TRY(ready());
  if (!function || !simulate::function_of(reinterpret_cast<CUfunction>(kernel))) return CUDA_ERROR_INVALID_HANDLE;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  if (!library || !simulate::function_of(reinterpret_cast<CUfunction>(kernel))) return CUDA_ERROR_INVALID_HANDLE;
  *library = kernel->library;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel kernel) {
  if (simulate::settings().old_driver) return CUDA_ERROR_NOT_SUPPORTED;
  Function* f = simulate::function_of(reinterpret_cast<CUfunction>(kernel));
  if (!name || !f) return CUDA_ERROR_INVALID_HANDLE;
  *name = f->name.c_str();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  TRY(ready());
  Function* f = simulate::function_of(reinterpret_cast<CUfunction>(kernel));
  if (!value || !f) return CUDA_ERROR_INVALID_HANDLE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return function_attribute(*f, attribute, value);
}
CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  TRY(ready());
  Function* f = simulate::function_of(reinterpret_cast<CUfunction>(kernel));
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return set_attribute(*f, attribute, value);
}
CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return simulate::function_of(reinterpret_cast<CUfunction>(kernel)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return parameter_info(simulate::function_of(reinterpret_cast<CUfunction>(kernel)), index, offset, size);
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* size) {
  return parameter_info(simulate::function_of(f), index, offset, size);
}
CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  TRY(ready());
  Function* f = simulate::function_of(handle);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  return value ? function_attribute(*f, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  TRY(ready());
  Function* f = simulate::function_of(handle);
  return f ? set_attribute(*f, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  return simulate::function_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult CUDAAPI cuFuncGetModule(CUmodule* module, CUfunction handle) {
  Function* f = simulate::function_of(handle);
  if (!f || !module) return CUDA_ERROR_INVALID_HANDLE;
  *module = f->module;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction handle) {
  return cuKernelGetName(name, reinterpret_cast<CUkernel>(handle));
}
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  if (!simulate::function_of(handle) || !state) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncLoad(CUfunction handle) {
  return simulate::function_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                             size_t shared) {
  TRY(ready());
  Function* f = simulate::function_of(handle);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  *blocks = blocks_per_multiprocessor(*f, threads, shared);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle, int threads,
                                                                      size_t shared, unsigned int) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle, threads, shared);
}
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction handle,
                                                           CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                           unsigned int) {
  TRY(ready());
  Function* f = simulate::function_of(handle);
  if (!f || !grid || !block) return CUDA_ERROR_INVALID_HANDLE;
  int best = 0, most = limit > 0 && limit < 1024 ? limit : 1024;
  for (int threads = (most + 31) / 32 * 32; threads >= 32; threads -= 32) {
    int fit = blocks_per_multiprocessor(*f, threads, shared_of ? shared_of(threads) : shared);
    if (fit * threads > best) {
      best = fit * threads;
      *block = std::min(threads, most);
      *grid = fit * simulate::settings().gpu_model->multiprocessors;
    }
  }
  return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of,
                                                  size_t shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of, shared, limit, 0);
}
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks, int) {
  if (!simulate::function_of(handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (!bytes || blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
  const simulate::GpuModel& gpu_model = *simulate::settings().gpu_model;
  *bytes = std::min(gpu_model.shared_per_multiprocessor / static_cast<size_t>(blocks) - 1024,
                    gpu_model.shared_per_block_optin);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
  Function* f = simulate::function_of(handle);
  if (!f || !clusters || !config) return CUDA_ERROR_INVALID_HANDLE;
  int threads = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  *clusters = blocks_per_multiprocessor(*f, threads, config->sharedMemBytes) *
              simulate::settings().gpu_model->multiprocessors / 8;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle, const CUlaunchConfig*) {
  if (!simulate::function_of(handle) || !size) return CUDA_ERROR_INVALID_HANDLE;
  *size = 8;
  return CUDA_SUCCESS;
}

}  // extern "C"

#include "simulate/model/module.h"

#include <cstring>

#include "simulate/model/device.h"
#include "simulate/model/memory.h"

namespace devtrace::simulate {

CUresult load(Container& c) {
  std::lock_guard lock(c.mutex);
  if (c.read) return CUDA_SUCCESS;
  int architecture = settings().gpu_model->major * 10 + settings().gpu_model->minor;
  using device_code::ImageState;
  switch (device_code::read_image(device_code::image_at(c.data), architecture, &c.contents)) {
    case ImageState::unknown:
      return CUDA_ERROR_INVALID_IMAGE;
    case ImageState::other_architecture:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ImageState::good:
      c.read = true;
  }
  return CUDA_SUCCESS;
}

Function* find_function(Container& c, const char* name) {
  if (load(c)) return nullptr;
  std::lock_guard lock(c.mutex);
  if (auto it = c.functions.find(name); it != c.functions.end()) return it->second;
  auto facts = c.contents.kernels.find(name);
  if (facts == c.contents.kernels.end() && !c.contents.opaque) return nullptr;
  auto* f = new CUkern_st;
  f->container = &c;
  f->name = name;
  if (facts != c.contents.kernels.end()) f->facts = &facts->second;
  c.functions[name] = f;
  handles<Function>().add(f);
  return f;
}

CUdeviceptr find_variable(Container& c, const char* name, int ordinal, size_t* size) {
  if (load(c)) return 0;
  std::lock_guard lock(c.mutex);
  auto known = c.contents.variables.find(name);
  if (known == c.contents.variables.end()) return 0;
  CUdeviceptr& address = c.variables[{name, ordinal}];
  if (!address) {
    if (allocate_device(ordinal, known->second ? known->second : 1, current(), nullptr, &address)) return 0;
    set_flags(address, kOfModule);
    std::memset(reinterpret_cast<void*>(address), 0, known->second);
  }
  if (size) *size = known->second;
  return address;
}

Function* function_of(CUfunction handle) {
  auto* f = reinterpret_cast<Function*>(handle);
  return handles<Function>().has(f) ? f : nullptr;
}

}  // namespace devtrace::simulate

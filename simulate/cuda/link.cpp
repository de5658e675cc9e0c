// The driver's linker (cuLink…). One image is what comes out as it went in: PTX, which modules take as well as machine
// code. Several would have to be linked, which nobody does here.
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/cuda/api.h"
#include "simulate/model/kernels/module.h"

struct CUlinkState_st {
  std::vector<uint8_t> image;  // with a zero behind it, as PTX is text
};

namespace {

// What the linker would have to say goes to buffers that the program gave: nothing.
void leave_logs_empty(unsigned count, const CUjit_option* options, void** values) {
  for (unsigned i = 0; options && values && i < count; ++i) {
    if (options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      if (values[i]) *static_cast<char*>(values[i]) = '\0';
    } else if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      values[i] = nullptr;  // here the size is said that was used
    }
  }
}

// Of the device's runtime for kernels that launch kernels: nothing is to be linked where no kernel does.
bool is_device_runtime(const char* path) {
  return std::string_view(path).find("cudadevrt") != std::string_view::npos;
}

CUresult add(CUlinkState state, std::vector<uint8_t> image) {
  if (!state->image.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  image.push_back(0);
  devtrace::device::Image contents;
  TRY(simulate::read_image(image.data(), image.size(), &contents));
  state->image = std::move(image);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLinkCreate(unsigned int count, CUjit_option* options, void** values, CUlinkState* state) {
  REQUIRE_CONTEXT(context);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  leave_logs_empty(count, options, values);
  *state = new CUlinkState_st;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType, void* data, size_t size, const char*, unsigned int,
                               CUjit_option*, void**) {
  TRY(ready());
  if (!state || !data) return CUDA_ERROR_INVALID_VALUE;
  const auto* const bytes = static_cast<const uint8_t*>(data);
  return add(state, std::vector<uint8_t>(bytes, bytes + size));
}

CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType, const char* path, unsigned int, CUjit_option*,
                               void**) {
  TRY(ready());
  if (!state || !path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream in(path, std::ios::binary);
  if (!in) return CUDA_ERROR_FILE_NOT_FOUND;
  if (is_device_runtime(path)) return CUDA_SUCCESS;
  return add(state, std::vector<uint8_t>(std::istreambuf_iterator<char>(in), {}));
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void** image, size_t* size) {
  TRY(ready());
  if (!state || !image) return CUDA_ERROR_INVALID_VALUE;
  if (state->image.empty()) return CUDA_ERROR_INVALID_IMAGE;
  *image = state->image.data();
  if (size) *size = state->image.size();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  delete state;
  return CUDA_SUCCESS;
}

}  // extern "C"

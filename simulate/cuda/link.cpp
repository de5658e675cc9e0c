// The driver's linker (cuLink…). One image is what comes out as it went in, as modules take PTX as well as machine
// code. Of several their PTX is linked.
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/cuda/api.h"
#include "simulate/model/kernels/linked.h"
#include "simulate/model/kernels/module.h"

struct CUlinkState_st {
  std::vector<std::vector<uint8_t>> images;  // each with a zero behind it, as PTX is text
  std::vector<uint8_t> linked;
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
  image.push_back(0);
  devtrace::device::Image contents;
  TRY(simulate::read_image(image.data(), image.size(), &contents));
  state->images.push_back(std::move(image));
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
  if (state->images.empty()) return CUDA_ERROR_INVALID_IMAGE;
  state->linked = state->images[0];
  if (state->images.size() > 1) {
    std::vector<const void*> all;
    for (const auto& each : state->images) all.push_back(each.data());
    devtrace::device::PtxText text;
    std::string why;
    if (!simulate::link_ptx(all, &text, &why)) {
      std::fprintf(stderr, "devtrace: cuLinkComplete: %s\n", why.c_str());
      return CUDA_ERROR_INVALID_PTX;
    }
    state->linked.assign(text.text.c_str(), text.text.c_str() + text.text.size() + 1);
  }
  *image = state->linked.data();
  if (size) *size = state->linked.size();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  delete state;
  return CUDA_SUCCESS;
}

}  // extern "C"

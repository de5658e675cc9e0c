// Stream-ordered memory pools: accounts over the device's arena. What is freed goes back at once, so nothing is ever
// held back.
#pragma once

#include <atomic>
#include <cstdint>

#include "simulate/common/cuda_headers.h"

struct CUmemPoolHandle_st {
  int device = 0;
  bool is_default = false;
  CUmemPoolProps properties = {};
  std::atomic<uint64_t> used{0}, used_high{0};
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};
  std::atomic<uint32_t> access{0};  // bit per other device ordinal
};

namespace devtrace::sim {

CUmemoryPool create_pool(int device, bool is_default);
CUmemoryPool default_pool(int device);
CUmemoryPool current_pool(int device);
CUresult pool_allocate(CUmemoryPool pool, size_t size, CUcontext context, CUdeviceptr* address);
// For pool and other device memory alike.
CUresult pool_free(CUdeviceptr address);

}  // namespace devtrace::sim

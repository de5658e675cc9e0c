// Devices and contexts, and what a thread has current.
#pragma once

#include <atomic>
#include <cstdint>

#include "simulate/common/cuda_headers.h"
#include "simulate/model/handles.h"
#include "simulate/settings/settings.h"

struct CUctx_st {
  int device = 0;  // ordinal
  bool primary = false;
  unsigned flags = 0;
  std::atomic<int> sticky{CUDA_SUCCESS};  // an error that no call survives, as after an illegal address
  std::atomic<uint32_t> peers{0};         // bit per ordinal whose memory this context may use
  CUstream legacy = nullptr;              // the default stream
  size_t limits[16] = {};
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  unsigned long long id = 0;
};

namespace devtrace::simulate {

struct Device {
  int ordinal = 0, physical = 0;
  CUctx_st* primary = nullptr;  // made at the first retain, then kept: its handle stays the same as the driver's does
  std::atomic<int> retained{0};
  std::atomic<unsigned> flags{0};
  std::atomic<CUmemoryPool> default_pool{nullptr}, pool{nullptr};
  std::atomic<uint64_t> launches{0};
};

// Makes the devices; later calls return the first one's result. CUDA_ERROR_NO_DEVICE when none is visible.
CUresult initialize();
bool initialized();
// A process that was forked after initialize(): the driver refuses to work there, so does this.
bool forked();

int device_count();
bool valid_device(int ordinal);
Device& device(int ordinal);
int ordinal_of(int physical);
// Whether device a can use the memory of b (ordinals).
bool can_access_peer(int a, int b);

CUcontext create_context(int ordinal, unsigned flags, bool primary);
// `activated`: nobody had retained it.
CUresult retain_primary(int ordinal, CUcontext* context, bool* activated);
CUresult release_primary(int ordinal);
void destroy_context(CUcontext context);

// The thread's context stack. Its top is what calls act on.
CUcontext current();
void set_current(CUcontext context);
bool push_current(CUcontext context);
CUcontext pop_current();

// For every call that needs a context: CUDA_SUCCESS and the current one, or why not.
CUresult require(CUcontext* context);

}  // namespace devtrace::simulate

// Returns from the calling driver function when there is no usable current context; otherwise names it.
#define REQUIRE_CONTEXT(name) \
  CUcontext name;             \
  if (CUresult failed_ = devtrace::simulate::require(&name)) return failed_

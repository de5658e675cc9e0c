#include "simulate/model/device.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstdio>
#include <mutex>

#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/stream.h"
#include "simulate/model/summary.h"
#include "simulate/values/asynchronous.h"

namespace devtrace::simulate {
namespace {

std::mutex g_mutex;
std::atomic<bool> g_initialized{false};
std::atomic<bool> g_forked{false};
Device* g_devices = nullptr;
int g_count = 0;
int g_ordinals[kMaxDevices];

constexpr int kStackDepth = 64;
thread_local CUcontext t_stack[kStackDepth];
thread_local int t_depth = 0;

void in_child() {
  if (g_initialized.load()) g_forked = true;
}

// Bytes; the driver's defaults on a data centre part.
void default_limits(size_t* limits) {
  limits[CU_LIMIT_STACK_SIZE] = 1024;
  limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
  limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128;
}

void say_no_addresses(const Settings& s) {
  constexpr double kGiB = 1 << 30;
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  std::fprintf(stderr, "devtrace: %d simulated devices of %.1f GiB need %.0f GiB of addresses (not of memory)", s.gpus,
               static_cast<double>(s.memory) / kGiB, static_cast<double>(address_space(s.gpus, s.memory)) / kGiB);
  if (limited)
    std::fprintf(stderr, ", and `ulimit -v` allows the process %.1f GiB: raise it, or give --gpus or --memory less\n",
                 static_cast<double>(limit.rlim_cur) / kGiB);
  else
    std::fprintf(stderr, ", which the host does not give: give --gpus or --memory less\n");
}

}  // namespace

CUresult initialize() {
  if (g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (g_initialized) return g_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
  std::lock_guard lock(g_mutex);
  if (g_initialized) return g_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
  const Settings& s = settings();
  if (s.visible_count == 0) return CUDA_ERROR_NO_DEVICE;
  if (!reserve_arenas(s.gpus, s.memory)) {
    say_no_addresses(s);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (int& o : g_ordinals) o = -1;
  g_devices = new Device[static_cast<size_t>(s.visible_count)];
  for (int i = 0; i < s.visible_count; ++i) {
    g_devices[i].ordinal = i;
    g_devices[i].physical = s.visible[i];
    g_ordinals[s.visible[i]] = i;
  }
  g_count = s.visible_count;
  if (is_async()) asynchronous::offer_effects();
  values::set_wait_for_streams(finish_work);
  pthread_atfork(nullptr, nullptr, in_child);
  summarize_at_exit();
  g_initialized = true;
  return CUDA_SUCCESS;
}

bool initialized() {
  return g_initialized;
}
bool forked() {
  return g_forked;
}
int device_count() {
  return g_count;
}
bool valid_device(int ordinal) {
  return ordinal >= 0 && ordinal < g_count;
}
Device& device(int ordinal) {
  return g_devices[ordinal];
}
int ordinal_of(int physical) {
  return g_ordinals[physical];
}

bool can_access_peer(int a, int b) {
  return a != b && (settings().peers[static_cast<size_t>(device(a).physical)] >> device(b).physical & 1);
}

CUcontext create_context(int ordinal, unsigned flags, bool primary) {
  static std::atomic<unsigned long long> next{1};
  auto* context = new CUctx_st;
  context->device = ordinal;
  context->flags = flags;
  context->primary = primary;
  context->id = next.fetch_add(1);
  default_limits(context->limits);
  context->legacy = create_stream(context, CU_STREAM_DEFAULT, 0);
  handles<CUctx_st>().add(context);
  return context;
}

CUresult retain_primary(int ordinal, CUcontext* context, bool* activated) {
  Device& d = device(ordinal);
  std::lock_guard lock(g_mutex);
  if (!d.primary) d.primary = create_context(ordinal, d.flags, true);
  *activated = d.retained.fetch_add(1) == 0;
  *context = d.primary;
  return CUDA_SUCCESS;
}

CUresult release_primary(int ordinal) {
  std::lock_guard lock(g_mutex);
  if (device(ordinal).retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --device(ordinal).retained;
  return CUDA_SUCCESS;
}

void destroy_context(CUcontext context) {
  handles<CUctx_st>().remove(context);  // the object stays: streams and memory still name it
}

CUcontext current() {
  return t_depth ? t_stack[t_depth - 1] : nullptr;
}

void set_current(CUcontext context) {
  if (t_depth == 0) t_depth = 1;
  t_stack[t_depth - 1] = context;
  if (!context) --t_depth;
}

bool push_current(CUcontext context) {
  if (t_depth == kStackDepth) return false;
  t_stack[t_depth++] = context;
  return true;
}

CUcontext pop_current() {
  return t_depth ? t_stack[--t_depth] : nullptr;
}

CUresult require(CUcontext* context) {
  if (!g_initialized || g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  CUcontext c = current();
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (int sticky = c->sticky.load(std::memory_order_relaxed)) return static_cast<CUresult>(sticky);
  *context = c;
  return CUDA_SUCCESS;
}

}  // namespace devtrace::simulate

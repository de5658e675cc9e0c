// Kernel launches of the driver API: checked and recorded, not run.
#include "simulate/cuda/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "simulate/common/uncomputed_part.h"
#include "simulate/cuda/api.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/kernels/computed.h"
#include "simulate/model/kernels/faulty_access.h"
#include "simulate/model/kernels/module.h"
#include "simulate/model/kernels/stand_ins.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/stream.h"
#include "simulate/values/large.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unknown.h"

namespace devtrace::simulate {
namespace {

// The arguments as one block, wherever the caller had them.
Arguments gather(const Function& f, void** parameters, void** extra) {
  Arguments a;
  if (extra) {
    const void* buffer = nullptr;
    size_t size = 0;
    for (void** e = extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
      if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = e[1];
      if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<size_t*>(e[1]);
    }
    if (buffer) a.values.assign(static_cast<const uint8_t*>(buffer), static_cast<const uint8_t*>(buffer) + size);
    return a;
  }
  if (!parameters || !f.facts || !f.facts->parameters_known) return a;
  for (size_t i = 0; i < f.facts->parameters.size(); ++i) {
    const device::Parameter& p = f.facts->parameters[i];
    if (a.values.size() < p.offset + p.size) a.values.resize(p.offset + p.size);
    std::memcpy(a.values.data() + p.offset, parameters[i], p.size);
    a.offsets.push_back(p.offset);
  }
  return a;
}

}  // namespace

CUresult check_shape(const Function& f, const Shape& s) {
  const GpuModel& gpu_model = *settings().gpu_model;
  if (!s.grid[0] || !s.grid[1] || !s.grid[2] || !s.block[0] || !s.block[1] || !s.block[2])
    return CUDA_ERROR_INVALID_VALUE;
  if (s.grid[0] > 0x7fffffffu || s.grid[1] > 65535 || s.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (s.block[0] > 1024 || s.block[1] > 1024 || s.block[2] > 64) return CUDA_ERROR_INVALID_VALUE;
  unsigned threads = s.block[0] * s.block[1] * s.block[2];
  const simulate::Needs needs = simulate::needs_of(f);
  const int most = needs.max_threads;
  if (threads > static_cast<unsigned>(most))
    return CUDA_ERROR_INVALID_VALUE;  // as the driver says of more than __launch_bounds__
  if (s.cluster[0] || s.cluster[1] || s.cluster[2]) {
    constexpr unsigned kMostBlocks = 16;  // of a cluster, on any device
    unsigned blocks = 1;
    for (int i = 0; i < 3; ++i) {
      if (!s.cluster[i] || s.grid[i] % s.cluster[i]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      blocks *= std::min(s.cluster[i], kMostBlocks + 1);
    }
    if (blocks > kMostBlocks) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  size_t shared = s.shared + static_cast<size_t>(needs.static_shared);
  size_t limit = f.max_dynamic_shared ? gpu_model.shared_per_block_optin : 48 << 10;
  if (shared > limit || (f.max_dynamic_shared && s.shared > static_cast<size_t>(f.max_dynamic_shared)))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult make_kernel(CUfunction handle, const Shape& s, void** parameters, void** extra, Operation* operation) {
  Function* f = function_of(handle);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult e = check_shape(*f, s)) return e;
  operation->type = CU_GRAPH_NODE_TYPE_KERNEL;
  CUDA_KERNEL_NODE_PARAMS& k = operation->kernel;
  k.func = handle;
  k.gridDimX = s.grid[0];
  k.gridDimY = s.grid[1];
  k.gridDimZ = s.grid[2];
  k.blockDimX = s.block[0];
  k.blockDimY = s.block[1];
  k.blockDimZ = s.block[2];
  k.sharedMemBytes = s.shared;
  k.kernelParams = parameters;
  k.extra = extra;
  operation->cooperative = s.cooperative;
  std::copy_n(s.cluster, 3, operation->cluster);
  if (has_stand_in(*f)) use_stand_in(operation, *f, gather(*f, parameters, extra));
  return CUDA_SUCCESS;
}

void keep_arguments(Operation* operation) {
  CUDA_KERNEL_NODE_PARAMS& k = operation->kernel;
  operation->arguments = gather(*function_of(k.func), k.kernelParams, k.extra);
  k.kernelParams = nullptr;
  k.extra = nullptr;
}

CUresult launch_kernel(CUfunction handle, const Shape& s, CUstream stream_handle, void** parameters, void** extra) {
  CUstream stream;
  TRY(resolve(stream_handle, &stream));
  REQUIRE_CONTEXT(context);
  // A stream belongs to its context: hardware refuses a launch into another device's.
  if (stream->context->device != context->device) return CUDA_ERROR_INVALID_HANDLE;
  Operation operation;
  TRY(make_kernel(handle, s, parameters, extra, &operation));
  const bool later = stream->capture || !is_idle(stream) || is_async();
  if (later) operation.launched_at = launch_site(*function_of(handle));
  if (later || extra || operation.ready) keep_arguments(&operation);
  TRY(submit(stream, std::move(operation)));
  if (!settings().launch_blocking || stream->capture) return CUDA_SUCCESS;
  synchronize(stream);
  return static_cast<CUresult>(context->sticky.load());
}

}  // namespace devtrace::simulate

extern "C" {

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  return simulate::launch_kernel(f, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, parameters, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                           unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                           void** parameters) {
  return simulate::launch_kernel(f, {{gx, gy, gz}, {bx, by, bz}, shared, true}, stream, parameters, nullptr);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** parameters, void** extra) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  simulate::Shape shape{
      {c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes};
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const CUlaunchAttributeValue& value = c->attrs[i].value;
    if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) shape.cooperative |= value.cooperative != 0;
    if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    shape.cluster[0] = value.clusterDim.x;
    shape.cluster[1] = value.clusterDim.y;
    shape.cluster[2] = value.clusterDim.z;
  }
  return simulate::launch_kernel(f, shape, c->hStream, parameters, extra);
}

}  // extern "C"

namespace {

// What a library's kernel has for parameters as far as it is simulated: the memory that it writes to and reads.
CUfunction writer(const char* name) {
  static const auto* const facts = [] {
    auto* made = new devtrace::device::KernelFacts;
    made->parameters = {{0, sizeof(void*)}, {sizeof(void*), sizeof(void*)}};
    made->parameters_known = true;
    made->reads = made->follows = {{0, 2 * sizeof(void*)}};
    return made;
  }();
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, CUkern_st*>;
  std::lock_guard lock(mutex);
  CUkern_st*& kernel = (*known)[name];
  if (!kernel) {
    kernel = new CUkern_st;
    kernel->name = name;
    kernel->facts = facts;
    simulate::handles<simulate::Function>().add(kernel);
  }
  return reinterpret_cast<CUfunction>(kernel);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) CUresult devtrace_sim_library_meet(const char* name, CUstream handle,
                                                                                     const void* read, void* written,
                                                                                     int (*ready)(void*),
                                                                                     void (*compute)(void*),
                                                                                     void (*drop)(void*), void* data) {
  std::shared_ptr<void> held(data, drop);
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  if (stream->context->device != context->device) return CUDA_ERROR_INVALID_HANDLE;
  void* parameters[] = {&written, &read};
  simulate::Operation operation;
  TRY(simulate::make_kernel(writer(name), {{1, 1, 1}, {1, 1, 1}, 0}, parameters, nullptr, &operation));
  simulate::keep_arguments(&operation);
  operation.ready = ready;
  operation.compute = compute;
  operation.compute_data = std::move(held);
  return simulate::submit(stream, std::move(operation));
}

extern "C" __attribute__((visibility("default"))) int devtrace_sim_uncomputed_part(const void* memory, size_t bytes,
                                                                                   simulate::UncomputedPart* part) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const simulate::values::Unwritten found = simulate::values::uncomputed().part(begin, bytes);
  if (!found.source) return false;
  *part = {found.begin - begin, found.begin - begin + found.size, {}};
  std::snprintf(part->source, sizeof part->source, "%s", simulate::values::name_of(found.source).c_str());
  return true;
}

extern "C" __attribute__((visibility("default"))) void devtrace_sim_received(const void* memory, size_t bytes,
                                                                             const simulate::UncomputedPart* part) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  simulate::values::uncomputed().clear(begin, bytes);
  if (part->begin < part->end)
    simulate::values::uncomputed().mark(begin + part->begin, part->end - part->begin,
                                        simulate::values::source_named(part->source));
}

extern "C" __attribute__((visibility("default"))) int devtrace_sim_is_left(const void* memory, size_t bytes, size_t of,
                                                                           int floating) {
  if (of < simulate::values::large_from()) return false;
  return floating || simulate::values::uncomputed().find(reinterpret_cast<uintptr_t>(memory), bytes) ==
                         simulate::values::unknown_source();
}

extern "C" __attribute__((visibility("default"))) void devtrace_sim_received_nothing(void* memory, size_t bytes) {
  if (!memory) return;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  if (!simulate::cleared(begin, bytes)) std::memset(memory, 0, bytes);
  simulate::values::uncomputed().mark(begin, bytes, simulate::values::unknown_source());
}

extern "C" __attribute__((visibility("default"))) CUresult devtrace_sim_library_compute(
    const char* name, CUstream stream, void* memory, void (*compute)(void*), void (*drop)(void*), void* data) {
  return devtrace_sim_library_meet(name, stream, nullptr, memory, nullptr, compute, drop, data);
}

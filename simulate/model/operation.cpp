#include "simulate/model/operation.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "simulate/model/array.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/device.h"
#include "simulate/model/graph/graph.h"
#include "simulate/model/kernels/computed.h"
#include "simulate/model/kernels/fault.h"
#include "simulate/model/kernels/module.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/pool.h"
#include "simulate/model/memory/written.h"
#include "simulate/model/profiler_callbacks.h"
#include "simulate/model/stream.h"
#include "simulate/settings/settings.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

// One end of a copy as the host sees it.
struct End {
  uint8_t* data = nullptr;
  size_t pitch = 0, height = 0;  // bytes a row, rows a slice
};

End end_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, size_t pitch, size_t height,
           size_t x, size_t y, size_t z) {
  End end;
  if (type == CU_MEMORYTYPE_ARRAY) {
    end = {array->data, array->pitch, array->rows()};
  } else {
    end.data = type == CU_MEMORYTYPE_HOST ? static_cast<uint8_t*>(const_cast<void*>(host))
                                          : reinterpret_cast<uint8_t*>(device);
    end.pitch = pitch;
    end.height = height;
  }
  end.data += (z * end.height + y) * end.pitch + x;
  return end;
}

void copy_now(const CUDA_MEMCPY3D& c) {
  End from = end_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY,
                    c.srcZ);
  End to = end_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY,
                  c.dstZ);
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y)
      std::memmove(to.data + (z * to.height + y) * to.pitch, from.data + (z * from.height + y) * from.pitch,
                   c.WidthInBytes);
}

// Bytes copied between each two devices, 0 standing for the host: what a test sets a tracer's counters against.
constexpr int kPlaces = 1 + kMaxDevices;
std::atomic<uint64_t> copied[kPlaces][kPlaces];

int place_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array) {
  if (type == CU_MEMORYTYPE_ARRAY) return 1 + array->device;
  if (type == CU_MEMORYTYPE_HOST) return 1 + owner_of(reinterpret_cast<uintptr_t>(host));
  return 1 + owner_of(device);
}

void count(const CUDA_MEMCPY3D& c) {
  const int from = place_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray);
  const int to = place_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray);
  if (from >= 0 && to >= 0) copied[from][to].fetch_add(c.WidthInBytes * c.Height * c.Depth, std::memory_order_relaxed);
}

void set_now(const CUDA_MEMSET_NODE_PARAMS& s) {
  for (size_t y = 0; y < s.height; ++y) {
    auto* row = reinterpret_cast<uint8_t*>(s.dst) + y * s.pitch;
    if (!s.value && cleared(reinterpret_cast<uintptr_t>(row), s.width * s.elementSize)) continue;
    if (s.elementSize == 1) std::memset(row, static_cast<int>(s.value), s.width);
    if (s.elementSize == 2)
      for (size_t i = 0; i < s.width; ++i) reinterpret_cast<uint16_t*>(row)[i] = static_cast<uint16_t>(s.value);
    if (s.elementSize == 4)
      for (size_t i = 0; i < s.width; ++i) reinterpret_cast<uint32_t*>(row)[i] = s.value;
  }
}

// What was copied or set is as computed as what it was made of. The host's memory is not followed: it is told of.
void follow(const CUDA_MEMCPY3D& c) {
  const End from = end_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight, c.srcXInBytes,
                          c.srcY, c.srcZ);
  const End to = end_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight, c.dstXInBytes,
                        c.dstY, c.dstZ);
  const bool to_host = place_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray) == 0;
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y) {
      const auto source = reinterpret_cast<uintptr_t>(from.data + (z * from.height + y) * from.pitch);
      const auto target = reinterpret_cast<uintptr_t>(to.data + (z * to.height + y) * to.pitch);
      if (to_host) values::uncomputed_is_read(values::uncomputed().find(source, c.WidthInBytes));
      values::uncomputed().copy(target, source, c.WidthInBytes, to_host);
    }
}

void follow(const CUDA_MEMSET_NODE_PARAMS& s) {
  for (size_t y = 0; y < s.height; ++y) values::uncomputed().clear(s.dst + y * s.pitch, s.width * s.elementSize);
}

// In place of a copy to the host whose source no kernel has written.
void clear_host(const CUDA_MEMCPY3D& c) {
  if (is_async() && asynchronous::operator_keeps_host()) return;
  if (c.dstMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_DEVICE) return;
  const End to = end_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight, c.dstXInBytes,
                        c.dstY, c.dstZ);
  Allocation a;
  if (find_memory(reinterpret_cast<CUdeviceptr>(to.data), &a) && a.device >= 0) return;
  for (size_t z = 0; z < c.Depth; ++z)
    for (size_t y = 0; y < c.Height; ++y) std::memset(to.data + (z * to.height + y) * to.pitch, 0, c.WidthInBytes);
}

bool is_illegal(const Operation& op, Function& f) {
  const Grid grid = {op.kernel.gridDimX, op.kernel.gridDimY, op.kernel.gridDimZ};
  return op.kernel.kernelParams ? illegal_address(op.context, f, grid, op.kernel.kernelParams)
                                : illegal_address(op.context, f, grid, op.arguments);
}

// Of a library's kernel: whether it was given what its device does not reach, which is an error of the context.
void find_unreachable(const Operation& op) {
  for (const CUdeviceptr address : op.touched)
    if (is_unreachable(op.context, address)) op.context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}

// Counts the launch, and faults where hardware would. The launch itself succeeds: the error is the context's, for later
// calls to find.
CUresult run_kernel(Operation& op) {
  count_launch(op);
  Function* f = op.kernel.func ? function_of(op.kernel.func) : nullptr;  // null: a mathematics library's
  if (op.kept ? f && may_compute(op, *f) : take_effect(op)) return CUDA_SUCCESS;
  if (!f) {
    find_unreachable(op);
    return CUDA_SUCCESS;
  }
  if (is_illegal(op, *f))
    op.context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  else if (op.compute && !(op.ready && op.context->sticky))
    op.compute(op.compute_data.get());
  return CUDA_SUCCESS;
}

// Whether [address, address+size) lies in one known allocation. Unknown memory is pageable host memory: the kernel
// judges it.
CUresult check_range(CUdeviceptr address, size_t size, bool must_be_device) {
  Allocation a;
  if (!find_memory(address, &a)) {
    if (must_be_device || owner_of(address) >= 0) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  // Mappings of one reservation lie side by side; a copy may run over several. None is accessible until
  // cuMemSetAccess.
  if (a.kind == AllocationKind::mapped) {
    for (uintptr_t at = address; at < address + size; at = a.base + a.size)
      if (!find_memory(at, &a) || a.kind != AllocationKind::mapped || !a.access) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  if (a.kind == AllocationKind::registered || a.kind == AllocationKind::pinned) return CUDA_SUCCESS;
  return address - a.base + size <= a.size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_end(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, size_t pitch, size_t height,
                   size_t x, size_t y, size_t z, const CUDA_MEMCPY3D& c) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    if (!handles<CUarray_st>().has(array)) return CUDA_ERROR_INVALID_HANDLE;
    bool fits = x + c.WidthInBytes <= array->pitch && y + c.Height <= array->rows() && z + c.Depth <= array->slices();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (c.Height > 1 && pitch < x + c.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  if (c.Depth > 1 && height < y + c.Height) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr at = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  if (!at) return CUDA_ERROR_INVALID_VALUE;
  size_t first = (z * height + y) * pitch + x;
  size_t size = ((c.Depth - 1) * height + c.Height - 1) * pitch + c.WidthInBytes;
  return check_range(at + first, size, type == CU_MEMORYTYPE_DEVICE);
}

CUresult perform(Operation& op) {
  switch (op.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return run_kernel(op);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      count(op.copy);
      if (op.copies_suppressed)
        clear_host(op.copy);
      else if (!op.kept)
        take_effect(op);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      if (!op.copies_suppressed && !op.kept) take_effect(op);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
      if (!op.kept) take_effect(op);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      complete_event(op.event, op.event_turn);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      wait_event(op.event, op.event_turn);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      op.memory->begin();
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return pool_free(op.free);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      run_conditional(op);
      return CUDA_SUCCESS;
    default:
      return CUDA_SUCCESS;
  }
}

CopyEndpoint place(CUmemorytype type, const void* host, CUdeviceptr device_address, CUarray array) {
  const int at = place_of(type, host, device_address, array) - 1;
  CopyEndpoint p;
  p.device = at;
  Allocation a;
  if (type == CU_MEMORYTYPE_ARRAY) {
    p.kind = CopyEndpoint::kArray;
  } else if (find_memory(type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : device_address, &a)) {
    p.kind = a.kind == AllocationKind::managed ? CopyEndpoint::kManaged
             : at < 0                          ? CopyEndpoint::kPinned
                                               : CopyEndpoint::kDevice;
    if (a.context) p.context = static_cast<uint32_t>(a.context->id);
  }
  if (at >= 0 && !p.context && device(at).primary) p.context = static_cast<uint32_t>(device(at).primary->id);
  return p;
}

// False: nothing that a profiler is told of.
bool describe(const Operation& op, Work* work) {
  work->correlation = op.correlation;
  work->device = static_cast<uint32_t>(op.context->device);
  work->context = static_cast<uint32_t>(op.context->id);
  work->stream = op.stream;
  work->waited = op.waited;
  switch (op.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      work->kind = Work::kKernel;
      const CUDA_KERNEL_NODE_PARAMS& k = op.kernel;
      const Function* f = k.func ? function_of(k.func) : nullptr;
      work->name = f ? f->name.c_str() : "library";  // null: a mathematics library's
      const unsigned grid[] = {k.gridDimX, k.gridDimY, k.gridDimZ}, block[] = {k.blockDimX, k.blockDimY, k.blockDimZ};
      std::memcpy(work->grid, grid, sizeof grid);
      std::memcpy(work->block, block, sizeof block);
      work->dynamic_shared = k.sharedMemBytes;
      if (f && f->facts) {
        const Needs needs = needs_of(*f);
        work->static_shared = static_cast<unsigned>(needs.static_shared);
        work->registers = static_cast<unsigned>(needs.registers);
        work->local = static_cast<unsigned>(needs.local);
      }
      return true;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      work->kind = Work::kCopy;
      const CUDA_MEMCPY3D& c = op.copy;
      work->bytes = c.WidthInBytes * c.Height * c.Depth;
      work->from = place(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray);
      work->to = place(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray);
      return true;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET:
      work->kind = Work::kSet;
      work->bytes = op.set.width * op.set.elementSize * op.set.height;
      work->value = op.set.value;
      work->to = place(CU_MEMORYTYPE_DEVICE, nullptr, op.set.dst, nullptr);
      return true;
    default:
      return false;
  }
}

}  // namespace

CUDA_MEMCPY3D plain_copy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  CUDA_MEMCPY3D c = {};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = from;
  c.dstDevice = to;
  c.WidthInBytes = size;
  c.Height = c.Depth = 1;
  return c;
}

CUresult check_copy(const CUDA_MEMCPY3D& c) {
  if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0) return CUDA_SUCCESS;
  if (CUresult e = check_end(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight,
                             c.srcXInBytes, c.srcY, c.srcZ, c))
    return e;
  return check_end(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY,
                   c.dstZ, c);
}

CUresult check_set(const CUDA_MEMSET_NODE_PARAMS& s) {
  if (s.elementSize != 1 && s.elementSize != 2 && s.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  if (s.width == 0 || s.height == 0) return CUDA_SUCCESS;
  if (s.dst % s.elementSize) return CUDA_ERROR_INVALID_VALUE;
  return check_range(s.dst, (s.height - 1) * s.pitch + s.width * s.elementSize, true);
}

void count_launch(Operation& op) {
  if (std::exchange(op.counted, true)) return;
  device(op.context->device).launches.fetch_add(1, std::memory_order_relaxed);
  if (op.in_operator || op.compute || op.deferred) return;
  const Function* f = op.kernel.func ? function_of(op.kernel.func) : nullptr;
  if (f && may_compute(op, *f)) return;  // it says so itself when it could not be
  values::not_computed_kernel(f            ? f->name
                              : op.library ? op.library
                                           : "of a mathematics library",
                              f ? why_not_computed(*f) : "");
}

namespace {

bool take_kernel_s_effect(const Operation& op) {
  Function* const f = op.kernel.func ? function_of(op.kernel.func) : nullptr;
  if (f && may_compute(op, *f)) {
    if (op.context->sticky || compute_kernel(op, *f)) return true;
    values::not_computed_kernel(f->name, why_not_computed(*f));
  }
  if (op.library && op.compute) {
    find_unreachable(op);
    if (!op.context->sticky) op.compute(op.compute_data.get());
    return true;
  }
  if (op.in_operator || op.compute) return false;
  if (f)
    mark_written(op, *f);
  else
    mark_written(op);
  return false;
}

}  // namespace

bool take_effect(const Operation& op) {
  switch (op.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      copy_now(op.copy);
      written_to(op.copy.dstDevice, true);
      if (values::any_uncomputed()) follow(op.copy);
      return true;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      set_now(op.set);
      written_to(op.set.dst, true);
      if (values::any_uncomputed()) follow(op.set);
      return true;
    case CU_GRAPH_NODE_TYPE_HOST:
      op.host.fn(op.host.userData);
      return true;
    default:
      return take_kernel_s_effect(op);
  }
}

bool waits_for_others(const Operation& op) {
  if (!op.ready || op.context->sticky) return false;
  Function* const f = function_of(op.kernel.func);
  return !(f && is_illegal(op, *f)) && !op.ready(op.compute_data.get());
}

CUresult execute(Operation& op) {
  const Listener* listener = op.correlation ? work_listener() : nullptr;
  if (!listener) return perform(op);
  Work work = {};
  if (!describe(op, &work)) return perform(op);
  work.start = listener->now();
  const CUresult result = perform(op);
  work.end = listener->now();
  if (work.end <= work.start) work.end = work.start + 1;
  listener->worked(work);
  return result;
}

}  // namespace devtrace::simulate

// Bytes copied so far from one device to another, -1: the host. For tests.
extern "C" __attribute__((visibility("default"))) uint64_t devtrace_sim_copied(int from, int to) {
  using namespace devtrace::simulate;
  if (from < -1 || to < -1 || from + 1 >= kPlaces || to + 1 >= kPlaces) return 0;
  return copied[from + 1][to + 1].load(std::memory_order_relaxed);
}

// Devices of the driver API, and their attributes.
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

#include "simulate/cuda/api.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/profiler_callbacks.h"
#include "simulate/settings/identity.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

// The same on every part of the table.
struct Row {
  int attribute, value;
};
constexpr Row kCommon[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
    {CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 128 << 20},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 0},
    {CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, 0},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
};

// As cuDeviceGetAttribute numbers them; the runtime's are the same numbers. False: this simulation gives no value for
// it. `ordinal` must be a device.
bool device_attribute(int attribute, int ordinal, int* value) {
  const Settings& s = settings();
  const GpuModel& gpu_model = *s.gpu_model;
  auto give = [&](auto v) {
    *value = static_cast<int>(v);
    return true;
  };
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
      return give(s.pageable);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return give(gpu_model.clock_khz);
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return give(gpu_model.multiprocessors);
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      return give(gpu_model.ecc);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return give(0x10 + device(ordinal).physical);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return give(gpu_model.memory_clock_khz);
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return give(gpu_model.memory_bus_bits);
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return give(gpu_model.l2_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return give(gpu_model.threads_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return give(gpu_model.major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return give(gpu_model.minor);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return give(gpu_model.shared_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return give(gpu_model.shared_per_block_optin);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return give(gpu_model.blocks_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
      return give(gpu_model.major >= 8 ? gpu_model.l2_bytes / 4 * 3 : 0);
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      return give(gpu_model.major >= 9);
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      return give(gpu_model.major >= 9);
    default:
      break;
  }
  for (const Row& row : kCommon)
    if (row.attribute == attribute) return give(row.value);
  return false;
}

CUresult initialize_and_tell() {
  TRY(initialize());
  if (inject()) notice(kResource, kInitFinished, nullptr);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace devtrace::simulate

extern "C" {

CUresult CUDAAPI cuInit(unsigned int flags) {
  simulate::values::ensure_installed();
  return flags ? CUDA_ERROR_INVALID_VALUE : simulate::initialize_and_tell();
}

// For libcudart's cudaGetDeviceCount, which PyTorch calls under a lock (a static variable's). What computes true values
// must not be brought in there: that lets the GIL go, and another thread may wait for the lock with the GIL.
__attribute__((visibility("default"))) CUresult devtrace_sim_initialize() {
  return simulate::initialize_and_tell();
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  TRY(ready());
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  TRY(ready());
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = simulate::device_count();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
  TRY(ready());
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "%s (simulated)", simulate::settings().gpu_model->name);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  TRY(ready());
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  simulate::Uuid u = simulate::device_uuid(simulate::settings().host, simulate::device(device).physical);
  std::memcpy(uuid->bytes, u.bytes, sizeof u.bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  TRY(ready());
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = simulate::settings().memory;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  TRY(ready());
  simulate::values::look_for_triton();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::device_attribute(attribute, device, value)) *value = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  TRY(cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  TRY(ready());
  if (!id || length < 13) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", 0x10 + simulate::device(device).physical);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  TRY(ready());
  if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) < 2) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < simulate::device_count(); ++i)
    if (domain == 0 && static_cast<int>(bus) == 0x10 + simulate::device(i).physical) {
      *device = i;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  TRY(ready());
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device) || !simulate::valid_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = simulate::can_access_peer(device, peer);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  TRY(ready());
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (from == to || !simulate::valid_device(from) || !simulate::valid_device(to)) return CUDA_ERROR_INVALID_DEVICE;
  bool peer = simulate::can_access_peer(from, to);
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : peer;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format, unsigned, CUdevice device) {
  TRY(ready());
  if (!width) return CUDA_ERROR_INVALID_VALUE;
  if (!simulate::valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *width = 268435456;
  return CUDA_SUCCESS;
}

// How a tracer tells a rehearsal from hardware: the number of simulated devices of this machine. Needs no cuInit.
__attribute__((visibility("default"))) int devtrace_simulation(void) {
  return simulate::settings().gpus;
}

// For the NVML stub, which sees all devices and needs no cuInit. False: a text did not fit. Null pointers are left
// out.
__attribute__((visibility("default"))) int devtrace_sim_physical(int physical, char* name, size_t name_size, char* uuid,
                                                                 size_t uuid_size, unsigned long long* memory,
                                                                 int* major, int* minor) {
  const simulate::Settings& s = simulate::settings();
  if (memory) *memory = s.memory;
  if (major) *major = s.gpu_model->major;
  if (minor) *minor = s.gpu_model->minor;
  if (name && static_cast<size_t>(std::snprintf(name, name_size, "%s (simulated)", s.gpu_model->name)) >= name_size)
    return 0;
  std::string text = simulate::device_uuid_text(simulate::settings().host, physical);
  return !uuid || static_cast<size_t>(std::snprintf(uuid, uuid_size, "%s", text.c_str())) < uuid_size;
}

// Also for NVML: bytes of a physical device that this process has been given; whether two reach each other; MHz
// and watts of the model.
__attribute__((visibility("default"))) unsigned long long devtrace_sim_used(int physical) {
  return simulate::initialized() ? simulate::arena(physical).used() : 0;
}
__attribute__((visibility("default"))) int devtrace_sim_peers(int physical, int other) {
  return physical != other && (simulate::settings().peers[static_cast<size_t>(physical)] >> other & 1);
}
__attribute__((visibility("default"))) void devtrace_sim_rates(unsigned* clock, unsigned* memory_clock,
                                                               unsigned* watts) {
  const simulate::GpuModel& model = *simulate::settings().gpu_model;
  *clock = static_cast<unsigned>(model.clock_khz / 1000);
  *memory_clock = static_cast<unsigned>(model.memory_clock_khz / 1000);
  *watts = static_cast<unsigned>(model.watts);
}

}  // extern "C"

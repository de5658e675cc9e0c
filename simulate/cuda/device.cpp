// Devices of the driver API, and their attributes.
#include <cstdio>
#include <cstring>
#include <string>

#include "simulate/cuda/api.h"
#include "simulate/model/attributes.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/profiler_callbacks.h"
#include "simulate/settings/identity.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

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

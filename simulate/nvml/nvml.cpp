// NVML: what programs ask of it about devices they then use through CUDA.
#define NVML_NO_UNVERSIONED_FUNC_DEFS  // the old names are functions of their own
#include <nvml.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "simulate/common/library.h"

namespace {

// The machine's devices, hidden ones too: NVML does not read CUDA_VISIBLE_DEVICES. A device is its physical index, plus
// one.
int index_of(nvmlDevice_t device) {
  return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1;
}

}  // namespace

// In libcuda: facts of a physical device, without initialising CUDA.
extern "C" int devtrace_sim_devtrace_simulation(void);
extern "C" int devtrace_sim_physical(int physical, char* name, size_t name_size, char* uuid, size_t uuid_size,
                                     unsigned long long* memory, int* major, int* minor);

extern "C" unsigned long long devtrace_sim_used(int physical);
extern "C" void devtrace_sim_rates(unsigned* clock, unsigned* memory_clock, unsigned* watts);

#define DEVICE(device)          \
  int index = index_of(device); \
  if (index < 0 || index >= devtrace_sim_devtrace_simulation()) return NVML_ERROR_INVALID_ARGUMENT

#pragma GCC visibility push(default)
extern "C" {

nvmlReturn_t nvmlInit_v2(void) {
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlInit(void) {
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlInitWithFlags(unsigned) {
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlShutdown(void) {
  return NVML_SUCCESS;
}
const char* nvmlErrorString(nvmlReturn_t error) {
  return error == NVML_SUCCESS                  ? "Success"
         : error == NVML_ERROR_NOT_SUPPORTED    ? "Not Supported"
         : error == NVML_ERROR_INVALID_ARGUMENT ? "Invalid Argument"
                                                : "Unknown Error";
}

// Programs read its numbers. That it is no driver the devices' names say.
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return static_cast<unsigned>(std::snprintf(version, length, "580.65.06")) < length ? NVML_SUCCESS
                                                                                     : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return static_cast<unsigned>(std::snprintf(version, length, "13.580.65.06")) < length ? NVML_SUCCESS
                                                                                        : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  *version = CUDA_VERSION;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(devtrace_sim_devtrace_simulation());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned wanted, nvmlDevice_t* device) {
  if (wanted >= static_cast<unsigned>(devtrace_sim_devtrace_simulation())) return NVML_ERROR_INVALID_ARGUMENT;
  *device = reinterpret_cast<nvmlDevice_t>(static_cast<intptr_t>(wanted) + 1);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned wanted, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(wanted, device);
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* out) {
  DEVICE(device);
  *out = static_cast<unsigned>(index);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  DEVICE(device);
  return devtrace_sim_physical(index, nullptr, 0, uuid, length, nullptr, nullptr, nullptr)
             ? NVML_SUCCESS
             : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  char own[96];
  for (int i = 0; i < devtrace_sim_devtrace_simulation(); ++i)
    if (devtrace_sim_physical(i, nullptr, 0, own, sizeof own, nullptr, nullptr, nullptr) && !std::strcmp(own, uuid))
      return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(i), device);
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  unsigned domain, bus, slot;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) < 2 || bus < 0x10) return NVML_ERROR_INVALID_ARGUMENT;
  return nvmlDeviceGetHandleByIndex_v2(bus - 0x10, device) ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  DEVICE(device);
  return devtrace_sim_physical(index, name, length, nullptr, 0, nullptr, nullptr, nullptr)
             ? NVML_SUCCESS
             : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  DEVICE(device);
  unsigned long long total = 0;
  devtrace_sim_physical(index, nullptr, 0, nullptr, 0, &total, nullptr, nullptr);
  const unsigned long long used = devtrace_sim_used(index);
  *memory = {.total = total, .free = total - used, .used = used};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  nvmlMemory_t m;
  if (const nvmlReturn_t e = nvmlDeviceGetMemoryInfo(device, &m)) return e;
  *memory = {.version = memory->version, .total = m.total, .reserved = 0, .free = m.free, .used = m.used};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  DEVICE(device);
  devtrace_sim_physical(index, nullptr, 0, nullptr, 0, nullptr, major, minor);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  DEVICE(device);
  std::memset(pci, 0, sizeof *pci);
  pci->bus = static_cast<unsigned char>(0x10 + index);
  std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus & 0xff);
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus & 0xff);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  DEVICE(device);
  *utilization = {0, 0};
  return NVML_SUCCESS;
}
// This process alone, once it has memory: nothing is known of others.
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t* all) {
  DEVICE(device);
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned long long used = devtrace_sim_used(index);
  const unsigned room = *count;
  *count = used ? 1 : 0;
  if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (used && all)
    *all = {.pid = static_cast<unsigned>(getpid()),
            .usedGpuMemory = used,
            .gpuInstanceId = 0xffffffff,
            .computeInstanceId = 0xffffffff};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_v1_t* all) {
  nvmlProcessInfo_t one = {};
  const nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, count, &one);
  if (result == NVML_SUCCESS && *count && all) *all = {.pid = one.pid, .usedGpuMemory = one.usedGpuMemory};
  return result;
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  DEVICE(device);
  *mode = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* number) {
  DEVICE(device);
  *number = static_cast<unsigned>(index);
  return NVML_SUCCESS;
}
}  // extern "C"
#pragma GCC visibility pop

// NVML: what programs ask of it about devices they then use through CUDA. Its header is in no wheel, so the few types
// are here.
#include <cstdio>
#include <cstring>

#include "simulate/common/library.h"

namespace {

// Values of nvml.h.
enum nvmlReturn {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kUnknown = 999
};

// The machine's devices, hidden ones too: NVML does not read CUDA_VISIBLE_DEVICES. A device is its physical index, plus
// one.
using Device = void*;

struct Memory {
  unsigned long long total, free, used;
};
struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};
struct Utilization {
  unsigned gpu, memory;
};

int index_of(Device device) {
  return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1;
}

}  // namespace

// In libcuda: facts of a physical device, without initialising CUDA.
extern "C" int devtrace_sim_devtrace_simulation(void);
extern "C" int devtrace_sim_physical(int physical, char* name, size_t name_size, char* uuid, size_t uuid_size,
                                     unsigned long long* memory, int* major, int* minor);

#define DEVICE(device)          \
  int index = index_of(device); \
  if (index < 0 || index >= devtrace_sim_devtrace_simulation()) return kInvalidArgument

#pragma GCC visibility push(default)
extern "C" {

int nvmlInit_v2(void) {
  return kSuccess;
}
int nvmlInit(void) {
  return kSuccess;
}
int nvmlInitWithFlags(unsigned) {
  return kSuccess;
}
int nvmlShutdown(void) {
  return kSuccess;
}
const char* nvmlErrorString(int error) {
  return error == kSuccess           ? "Success"
         : error == kNotSupported    ? "Not Supported"
         : error == kInvalidArgument ? "Invalid Argument"
                                     : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return static_cast<unsigned>(std::snprintf(version, length, "580.0.simulated")) < length ? kSuccess
                                                                                           : kInsufficientSize;
}
int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return static_cast<unsigned>(std::snprintf(version, length, "13.580.0")) < length ? kSuccess : kInsufficientSize;
}
int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = CUDA_VERSION;
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(devtrace_sim_devtrace_simulation());
  return kSuccess;
}
int nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned wanted, Device* device) {
  if (wanted >= static_cast<unsigned>(devtrace_sim_devtrace_simulation())) return kInvalidArgument;
  *device = reinterpret_cast<Device>(static_cast<intptr_t>(wanted) + 1);
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex(unsigned wanted, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(wanted, device);
}
int nvmlDeviceGetIndex(Device device, unsigned* out) {
  DEVICE(device);
  *out = static_cast<unsigned>(index);
  return kSuccess;
}
int nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  DEVICE(device);
  return devtrace_sim_physical(index, nullptr, 0, uuid, length, nullptr, nullptr, nullptr) ? kSuccess
                                                                                           : kInsufficientSize;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  char own[96];
  for (int i = 0; i < devtrace_sim_devtrace_simulation(); ++i)
    if (devtrace_sim_physical(i, nullptr, 0, own, sizeof own, nullptr, nullptr, nullptr) && !std::strcmp(own, uuid))
      return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(i), device);
  return kNotFound;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  unsigned domain, bus, slot;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) < 2 || bus < 0x10) return kInvalidArgument;
  return nvmlDeviceGetHandleByIndex_v2(bus - 0x10, device) ? kNotFound : kSuccess;
}
int nvmlDeviceGetName(Device device, char* name, unsigned length) {
  DEVICE(device);
  return devtrace_sim_physical(index, name, length, nullptr, 0, nullptr, nullptr, nullptr) ? kSuccess
                                                                                           : kInsufficientSize;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  DEVICE(device);
  unsigned long long total = 0;
  devtrace_sim_physical(index, nullptr, 0, nullptr, 0, &total, nullptr, nullptr);
  *memory = {total, total, 0};
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2* memory) {
  Memory m;
  if (int e = nvmlDeviceGetMemoryInfo(device, &m)) return e;
  *memory = {memory->version, m.total, 0, m.free, m.used};
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  DEVICE(device);
  devtrace_sim_physical(index, nullptr, 0, nullptr, 0, nullptr, major, minor);
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
  DEVICE(device);
  std::memset(pci, 0, sizeof *pci);
  pci->bus = static_cast<unsigned char>(0x10 + index);
  std::snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus & 0xff);
  std::snprintf(pci->text, sizeof pci->text, "00000000:%02X:00.0", pci->bus & 0xff);
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  DEVICE(device);
  *utilization = {0, 0};
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, void*) {
  DEVICE(device);
  *count = 0;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, void* list) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}
int nvmlDeviceGetPersistenceMode(Device device, int* mode) {
  DEVICE(device);
  *mode = 1;
  return kSuccess;
}
int nvmlDeviceGetMinorNumber(Device device, unsigned* number) {
  DEVICE(device);
  *number = static_cast<unsigned>(index);
  return kSuccess;
}
// No links are simulated: peer access has a table of its own (DEVTRACE_SIM_PEER).
int nvmlDeviceGetNvLinkState(Device, unsigned, int*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, int*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned, void*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkCapability(Device, unsigned, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetTemperature(Device, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetPowerUsage(Device, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetClockInfo(Device, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetTopologyCommonAncestor(Device, Device, int*) {
  return kNotSupported;
}
int nvmlDeviceGetP2PStatus(Device, Device, int, int*) {
  return kNotSupported;
}
int nvmlDeviceGetMigMode(Device, unsigned*, unsigned*) {
  return kNotSupported;
}

}  // extern "C"
#pragma GCC visibility pop

// What NVML says of the board a device is, and of the ways to it: PCIe, and from device to device.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <cstdint>
#include <cstdio>

extern "C" int devtrace_sim_devtrace_simulation(void);
extern "C" int devtrace_sim_physical(int physical, char* name, size_t name_size, char* uuid, size_t uuid_size,
                                     unsigned long long* memory, int* major, int* minor);
extern "C" int devtrace_sim_peers(int physical, int other);

namespace {

// See nvml.cpp. -1: none.
int index_of(nvmlDevice_t device) {
  const auto index = static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1;
  return index >= 0 && index < devtrace_sim_devtrace_simulation() ? index : -1;
}

template <class T>
nvmlReturn_t answer(nvmlDevice_t device, T* out, T value) {
  if (index_of(device) < 0 || !out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

// A row for each compute capability and those above it, up to the next row.
struct Generation {
  int capability;
  unsigned pcie;
  nvmlDeviceArchitecture_t architecture;
};
constexpr Generation kGenerations[] = {{100, 5, NVML_DEVICE_ARCH_BLACKWELL}, {90, 5, NVML_DEVICE_ARCH_HOPPER},
                                       {89, 4, NVML_DEVICE_ARCH_ADA},        {80, 4, NVML_DEVICE_ARCH_AMPERE},
                                       {75, 3, NVML_DEVICE_ARCH_TURING},     {70, 3, NVML_DEVICE_ARCH_VOLTA},
                                       {0, 3, NVML_DEVICE_ARCH_PASCAL}};
constexpr unsigned kLanes = 16;

const Generation& generation() {
  int major = 0, minor = 0;
  devtrace_sim_physical(0, nullptr, 0, nullptr, 0, nullptr, &major, &minor);
  const Generation* row = kGenerations;
  while (row->capability > major * 10 + minor) ++row;
  return *row;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, generation().pcie);
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, generation().pcie);
}
nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, generation().pcie);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, kLanes);
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, kLanes);
}
// Nothing goes over it.
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t, unsigned* kilobytes_per_second) {
  return answer(device, kilobytes_per_second, 0U);
}
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, 0U);
}

// One bridge for all.
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuTopologyLevel_t* out) {
  if (index_of(other) < 0) return NVML_ERROR_INVALID_ARGUMENT;
  return answer(one, out, one == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_SINGLE);
}
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned* count,
                                              nvmlDevice_t* all) {
  if (index_of(device) < 0 || !count) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = *count;
  *count = 0;
  if (level != NVML_TOPOLOGY_SINGLE) return NVML_SUCCESS;
  for (intptr_t i = 1; i <= devtrace_sim_devtrace_simulation(); ++i) {
    auto* const each = reinterpret_cast<nvmlDevice_t>(i);
    if (each == device) continue;
    if (all && *count < room) all[*count] = each;
    ++*count;
  }
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t what,
                                    nvmlGpuP2PStatus_t* out) {
  if (index_of(one) < 0 || index_of(other) < 0) return NVML_ERROR_INVALID_ARGUMENT;
  const bool can = what != NVML_P2P_CAPS_INDEX_NVLINK && devtrace_sim_peers(index_of(one), index_of(other));
  return answer(one, out, can ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* out) {
  return answer(device, out, generation().architecture);
}
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* out) {
  return answer(device, out, NVML_BRAND_NVIDIA);
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* out, unsigned length) {
  const int index = index_of(device);
  if (index < 0 || !out) return NVML_ERROR_INVALID_ARGUMENT;
  return static_cast<unsigned>(std::snprintf(out, length, "%013d", index)) < length ? NVML_SUCCESS
                                                                                    : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned* out) {
  return answer(device, out, static_cast<unsigned>(index_of(device)));
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* out) {
  return answer(device, out, NVML_COMPUTEMODE_DEFAULT);
}

}  // extern "C"
#pragma GCC visibility pop

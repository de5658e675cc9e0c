// What sensors and switches of a board would say: plausible for the model and always the same, as nothing here gets
// warm. And which CPUs are near: all of them.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <ctime>

#include "simulate/common/library.h"

extern "C" int devtrace_sim_devtrace_simulation(void);
extern "C" void devtrace_sim_rates(unsigned* clock, unsigned* memory_clock, unsigned* watts);

namespace {

constexpr unsigned kCelsius = 42, kSlowdownCelsius = 87, kShutdownCelsius = 92;

// See nvml.cpp.
bool is_device(nvmlDevice_t device) {
  const auto index = reinterpret_cast<intptr_t>(device) - 1;
  return index >= 0 && index < devtrace_sim_devtrace_simulation();
}

struct Rates {
  unsigned clock = 0, memory_clock = 0, watts = 0;  // MHz and W
  Rates() { devtrace_sim_rates(&clock, &memory_clock, &watts); }
  unsigned idle_milliwatts() const { return watts * 1000 / 8; }
};

template <class T>
nvmlReturn_t answer(nvmlDevice_t device, T* out, T value) {
  if (!is_device(device) || !out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t type, unsigned* out) {
  if (type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  const Rates rates;
  return answer(device, out, type == NVML_CLOCK_MEM ? rates.memory_clock : rates.clock);
}

// `words`: of how many bits each.
nvmlReturn_t all_bits(nvmlDevice_t device, unsigned words, unsigned long* out, long count) {
  if (!is_device(device) || !out || !words) return NVML_ERROR_INVALID_ARGUMENT;
  constexpr long kBits = CHAR_BIT * sizeof(unsigned long);
  std::fill(out, out + words, 0UL);
  for (long i = 0; i < std::min(count, kBits * static_cast<long>(words)); ++i) out[i / kBits] |= 1UL << (i % kBits);
  return NVML_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned* celsius) {
  return sensor == NVML_TEMPERATURE_GPU ? answer(device, celsius, kCelsius) : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t* temperature) {
  if (!is_device(device) || !temperature) return NVML_ERROR_INVALID_ARGUMENT;
  temperature->temperature = static_cast<int>(kCelsius);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t which,
                                               unsigned* celsius) {
  if (which == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN) return answer(device, celsius, kShutdownCelsius);
  if (which == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN) return answer(device, celsius, kSlowdownCelsius);
  return is_device(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  return answer(device, milliwatts, Rates().idle_milliwatts());
}
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* millijoules) {
  timespec up = {};
  clock_gettime(CLOCK_MONOTONIC, &up);
  const auto milliseconds =
      static_cast<unsigned long long>(up.tv_sec) * 1000 + static_cast<unsigned long long>(up.tv_nsec) / 1000000;
  return answer(device, millijoules, milliseconds * Rates().idle_milliwatts() / 1000);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned* milliwatts) {
  return answer(device, milliwatts, Rates().watts * 1000);
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* megahertz) {
  return clock_of(device, type, megahertz);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* megahertz) {
  return clock_of(device, type, megahertz);
}
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t, unsigned* megahertz) {
  return clock_of(device, type, megahertz);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* state) {
  return answer(device, state, NVML_PSTATE_0);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return answer<unsigned long long>(device, reasons, nvmlClocksThrottleReasonNone);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return answer<unsigned long long>(device, reasons, nvmlClocksThrottleReasonNone);
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long* cpus) {
  return all_bits(device, words, cpus, sysconf(_SC_NPROCESSORS_CONF));
}
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words, unsigned long* cpus,
                                                 nvmlAffinityScope_t) {
  return nvmlDeviceGetCpuAffinity(device, words, cpus);
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long* nodes,
                                         nvmlAffinityScope_t) {
  return all_bits(device, words, nodes, 1);
}
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device) {
  return is_device(device) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;  // all CPUs are near: nothing changes
}
nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device) {
  return nvmlDeviceSetCpuAffinity(device);
}
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned* node) {
  return answer(device, node, 0U);
}

// A device that is whole, on no fabric, computes nothing in confidence, and has none of the many fields.
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  if (const nvmlReturn_t error = answer(device, current, 0u)) return error;
  return answer(device, pending, 0u);
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t* info) {
  if (!is_device(device) || !info) return NVML_ERROR_INVALID_ARGUMENT;
  info->state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t* state) {
  if (!state) return NVML_ERROR_INVALID_ARGUMENT;
  *state = {};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  if (!is_device(device) || !values || count < 0) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < count; ++i) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop

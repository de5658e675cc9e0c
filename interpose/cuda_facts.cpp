#include "interpose/cuda_facts.h"

#include <cuda.h>

#include <cstdio>

#include "interpose/cuda_device.h"
#include "interpose/cuda_kernels.h"
#include "interpose/original.h"
#include "tracker/runtime.h"

namespace devtrace {
namespace {

template <class Function>
Function driver(const char* symbol, Function) {
  return reinterpret_cast<Function>(interpose::find_in_library("libcuda.so", symbol));
}

std::string cuda_version() {
  const auto get_version =
      reinterpret_cast<int (*)(int*)>(interpose::find_in_library("libcudart.so", "cudaRuntimeGetVersion"));
  int version = 0;
  if (!get_version || get_version(&version) != 0 || version == 0) return {};
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::vector<DeviceFacts> devices() {
  std::vector<DeviceFacts> found;
  const auto count_devices = driver("cuDeviceGetCount", &::cuDeviceGetCount);
  const auto get_name = driver("cuDeviceGetName", &::cuDeviceGetName);
  const auto get_uuid =
      reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(interpose::find_in_library("libcuda.so", "cuDeviceGetUuid_v2"));
  int count = 0;
  if (!count_devices || count_devices(&count) != CUDA_SUCCESS) return found;
  for (int i = 0; i < count; ++i) {
    DeviceFacts device;
    device.index = i;
    char name[256] = {};
    if (get_name && get_name(name, sizeof name - 1, i) == CUDA_SUCCESS) device.name = name;
    CUuuid uuid{};
    if (get_uuid && get_uuid(&uuid, i) == CUDA_SUCCESS) device.uuid = uuid_text(uuid);
    found.push_back(std::move(device));
  }
  return found;
}

bool simulated() {
  return interpose::find_in_library("libcuda.so", "devtrace_simulation") != nullptr;
}

bool host_within_reach(int device, uintptr_t address) {
  static const auto ask_device = driver("cuDeviceGetAttribute", &::cuDeviceGetAttribute);
  static const auto ask_pointer = driver("cuPointerGetAttribute", &::cuPointerGetAttribute);
  int pageable = 1;
  unsigned type = 0;
  if (!ask_device || !ask_pointer ||
      ask_device(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device) != CUDA_SUCCESS || pageable)
    return true;
  // What CUDA has nothing to do with is an invalid value; any other error says nothing of the address.
  return ask_pointer(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

namespace interpose {
void answer_runtime_questions() {
  set_runtime({exact_current_device, cuda_version, devices, simulated, uses_of_parameters, host_within_reach});
}
}  // namespace interpose

}  // namespace devtrace

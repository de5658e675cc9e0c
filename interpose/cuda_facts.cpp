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

bool capturing(const void* stream) {
  const auto ask = driver("cuStreamIsCapturing", &::cuStreamIsCapturing);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask && ask(static_cast<CUstream>(const_cast<void*>(stream)), &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

namespace interpose {
void answer_runtime_questions() {
  set_runtime({.current_device = exact_current_device,
               .cuda_version = cuda_version,
               .devices = devices,
               .simulated = simulated,
               .symbol = find_in_library,
               .uses_of_parameters = uses_of_parameters,
               .owner = exact_owner,
               .capturing = capturing});
}
}  // namespace interpose

}  // namespace devtrace

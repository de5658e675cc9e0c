#include "interpose/cuda/platform.h"

#include <cuda.h>

#include <cstdio>
#include <iterator>

#include "interpose/cuda/current_device.h"
#include "interpose/cuda/kernel_handles.h"
#include "interpose/cuda/kernel_images.h"
#include "interpose/linking/lazy_symbol.h"
#include "interpose/linking/original.h"
#include "tracker/interface/platform.h"

namespace devtrace::interpose {
namespace {

constinit interpose::LazySymbol<decltype(&::cuPointerGetAttributes)> pointer_attributes("libcuda.so",
                                                                                        "cuPointerGetAttributes");
constinit interpose::LazySymbol<decltype(&::cuPointerGetAttribute)> pointer_attribute("libcuda.so",
                                                                                      "cuPointerGetAttribute");

// By its type alone: naming the function would ask the linker for it where nothing is optimized away.
template <class Function>
Function driver(const char* symbol) {
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
  const auto count_devices = driver<decltype(&::cuDeviceGetCount)>("cuDeviceGetCount");
  const auto get_name = driver<decltype(&::cuDeviceGetName)>("cuDeviceGetName");
  const auto get_uuid =
      reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(interpose::find_in_library("libcuda.so", "cuDeviceGetUuid_v2"));
  const auto get_memory = reinterpret_cast<CUresult (*)(size_t*, CUdevice)>(
      interpose::find_in_library("libcuda.so", "cuDeviceTotalMem_v2"));
  int count = 0;
  if (!count_devices || count_devices(&count) != CUDA_SUCCESS) return found;
  for (int i = 0; i < count; ++i) {
    DeviceFacts device;
    device.index = i;
    char name[256] = {};
    if (get_name && get_name(name, sizeof name - 1, i) == CUDA_SUCCESS) device.name = name;
    CUuuid uuid{};
    if (get_uuid && get_uuid(&uuid, i) == CUDA_SUCCESS) device.uuid = uuid_text(uuid);
    size_t bytes = 0;
    if (get_memory && get_memory(&bytes, i) == CUDA_SUCCESS) device.memory = bytes;
    found.push_back(std::move(device));
  }
  return found;
}

bool simulated() {
  static constinit interpose::LazySymbol<void (*)()> mark("libcuda.so", "devtrace_simulation");
  return mark.get() != nullptr;
}

// cuPointerGetAttributes succeeds for every address, also for one that CUDA does not know; an error is no answer. It is
// allowed while a stream is being captured.
Platform::Answer memory_at(uint64_t address, Extent& extent) {
  const auto ask = pointer_attributes.get();
  unsigned type = 0;
  int ordinal = -1;
  unsigned is_managed = 0;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* answers[] = {&type, &ordinal, &is_managed, &start, &bytes};
  if (!ask || ask(std::size(attributes), attributes, answers, address) != CUDA_SUCCESS) return Platform::Answer::none;
  if (type == 0 || start == 0 || bytes == 0 || address - start >= bytes) return Platform::Answer::nobodys;
  extent = {start, bytes, Device::cpu(), MemoryKind::pinned};
  if (is_managed) {
    extent.memory = MemoryKind::managed;
  } else if (type == CU_MEMORYTYPE_DEVICE && ordinal >= 0) {
    extent.device = Device::cuda(ordinal);
    extent.memory = MemoryKind::device;
  }
  return Platform::Answer::known;
}

bool capturing(const void* stream) {
  const auto ask = driver<decltype(&::cuStreamIsCapturing)>("cuStreamIsCapturing");
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask && ask(static_cast<CUstream>(const_cast<void*>(stream)), &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

bool host_within_reach(int device, uintptr_t address) {
  const auto ask = pointer_attribute.get();
  int pageable = 1;
  unsigned type = 0;
  if (!ask || !interpose::device_attribute(device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, pageable) || pageable)
    return true;
  // What CUDA has nothing to do with is an invalid value; any other error says nothing of the address.
  return ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_ERROR_INVALID_VALUE;
}

bool peer_possible(int device, int peer) {
  const auto ask = driver<decltype(&::cuDeviceCanAccessPeer)>("cuDeviceCanAccessPeer");
  int can = 1;
  return !ask || ask(&can, device, peer) != CUDA_SUCCESS || can;
}

}  // namespace

Platform cuda_platform() {
  return {.current_device = exact_current_device,
          .cuda_version = cuda_version,
          .devices = devices,
          .simulated = simulated,
          .symbol = find_in_library,
          .uses_of_parameters = uses_of_parameters,
          .memory_at = memory_at,
          .capturing = capturing,
          .host_within_reach = host_within_reach,
          .peer_possible = peer_possible,
          .before_fork = kernel_images::before_fork};
}

}  // namespace devtrace::interpose

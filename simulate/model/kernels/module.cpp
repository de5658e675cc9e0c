#include "simulate/model/kernels/module.h"

#include <algorithm>
#include <cstring>

#include "simulate/model/device.h"
#include "simulate/model/kernels/computed.h"
#include "simulate/model/kernels/linked.h"
#include "simulate/model/memory/memory.h"

namespace devtrace::simulate {

CUresult read_image(const void* data, size_t most, device::Image* contents) {
  const int architecture = settings().gpu_model->architecture();
  using device::ImageState;
  switch (device::read_image(device::image_at(data, most), architecture, contents)) {
    case ImageState::unknown:
      return CUDA_ERROR_INVALID_IMAGE;
    case ImageState::other_architecture:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ImageState::good:
      break;
  }
  return CUDA_SUCCESS;
}

CUresult load(Container& c) {
  std::lock_guard lock(c.mutex);
  if (c.read) return CUDA_SUCCESS;
  if (CUresult e = read_image(c.data, SIZE_MAX, &c.contents)) {
    std::string why;
    if (!link_ptx(device::relocatable_images(c.data), &c.ptx, &why)) return e;
    if (read_image(c.ptx.text.c_str(), c.ptx.text.size() + 1, &c.contents)) return e;
  }
  c.read = true;
  keep_ptx(c);
  return CUDA_SUCCESS;
}

Function* find_function(Container& c, const char* name) {
  if (load(c)) return nullptr;
  std::lock_guard lock(c.mutex);
  if (auto it = c.functions.find(name); it != c.functions.end()) return it->second;
  auto facts = c.contents.kernels.find(name);
  if (facts == c.contents.kernels.end() && !c.contents.opaque) return nullptr;
  auto* f = new CUkern_st;
  f->container = &c;
  f->name = name;
  if (facts != c.contents.kernels.end()) f->facts = &facts->second;
  c.functions[name] = f;
  handles<Function>().add(f);
  return f;
}

namespace {

CUresult allocate(const device::Variable& v, int ordinal, CUdeviceptr* address) {
  const size_t bytes = v.bytes ? v.bytes : 1;
  if (v.managed)
    return allocate_host(reinterpret_cast<void**>(address), bytes, AllocationKind::managed,
                         CU_MEM_ATTACH_GLOBAL | kOfModule, ordinal, current());
  if (CUresult e = allocate_device(ordinal, bytes, current(), nullptr, address)) return e;
  const bool set = !v.addresses.empty() || std::ranges::any_of(v.initial, [](uint8_t byte) { return byte != 0; });
  set_flags(*address, kOfModule | (set ? kSet : 0));
  return CUDA_SUCCESS;
}

// With the container's lock held.
CUdeviceptr place_variable(Container& c, const std::string& name, int ordinal) {
  const auto known = c.contents.variables.find(name);
  if (known == c.contents.variables.end()) return 0;
  const device::Variable& v = known->second;
  CUdeviceptr& address = c.variables[{name, v.managed ? 0 : ordinal}];
  if (address) return address;
  if (allocate(v, ordinal, &address)) return 0;
  auto* const bytes = reinterpret_cast<uint8_t*>(address);
  std::memset(bytes, 0, v.bytes);
  std::memcpy(bytes, v.initial.data(), std::min(v.initial.size(), v.bytes));
  // Each may point to another, and in a circle: so the place is known before.
  for (const device::AddressOf& one : v.addresses) {
    if (one.offset > v.bytes || v.bytes - one.offset < sizeof(CUdeviceptr)) continue;
    const CUdeviceptr to = place_variable(c, one.variable, ordinal);
    const CUdeviceptr value = to ? to + static_cast<CUdeviceptr>(one.addend) : 0;
    std::memcpy(bytes + one.offset, &value, sizeof value);
  }
  return address;
}

}  // namespace

CUdeviceptr find_variable(Container& c, const char* name, int ordinal, size_t* size) {
  if (load(c)) return 0;
  std::lock_guard lock(c.mutex);
  const CUdeviceptr address = place_variable(c, name, ordinal);
  if (address && size) *size = c.contents.variables.at(name).bytes;
  return address;
}

std::optional<VariableElsewhere> set_elsewhere(Container& c, uintptr_t base, int ordinal) {
  std::lock_guard lock(c.mutex);
  const auto here = std::ranges::find_if(
      c.variables, [&](const auto& one) { return one.second == base && one.first.second == ordinal; });
  if (here == c.variables.end()) return std::nullopt;
  for (const auto& [key, address] : c.variables) {
    Allocation a;
    if (key.first == here->first.first && address != base && find_memory(address, &a) && a.flags & kSetByHost)
      return VariableElsewhere{key.first, key.second, address};
  }
  return std::nullopt;
}

Function* function_of(CUfunction handle) {
  auto* f = reinterpret_cast<Function*>(handle);
  return handles<Function>().has(f) ? f : nullptr;
}

}  // namespace devtrace::simulate

// What a computed kernel finds of a device's memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulate/common/cuda_headers.h"
#include "simulate/kernels/launch.h"
#include "simulate/kernels/machine.h"
#include "simulate/model/kernels/module.h"
#include "simulate/model/memory/memory.h"
#include "simulate/values/uncomputed.h"

namespace devtrace::simulate {

class KernelMemory : public kernels::Memory {
 public:
  // `container`: whose kernel it is; null: a library's function, which has no variables.
  KernelMemory(CUcontext context, Container* container)
      : context_(context), container_(container), follows_(values::any_uncomputed()) {}
  Found find(uintptr_t address, size_t size, bool writes, kernels::Extent* extent) override;
  void note(const kernels::Result& where) override;
  uintptr_t allocate(size_t size) override;
  void release(uintptr_t address) override;
  int device() const override;
  bool attribute(int which, int device, int* value) const override;
  void set_condition(uint64_t handle, uint32_t value) override;
  bool texture(uint64_t handle, kernels::Texture* found, std::string* why) override;
  bool follows() const override { return follows_; }
  bool used(uintptr_t address, size_t size, bool writes) override;
  // For a launch all of whose blocks may wait for each other.
  uint64_t workspace() const { return reinterpret_cast<uint64_t>(&workspace_); }
  // The first access that is a mistake and goes on as on hardware; null: there was none.
  const std::optional<kernels::Result>& noted() const { return noted_; }
  // What the kernel wrote is as computed as what it read.
  void finish();

 private:
  CUcontext context_;
  Container* container_;
  std::optional<kernels::Result> noted_;
  const bool follows_;
  alignas(8) uint32_t workspace_[2] = {sizeof workspace_, 0};
  std::mutex mutex_;
  values::Source source_ = 0;
  std::vector<std::pair<uintptr_t, size_t>> written_;
};

// The block that ends near before an address that is nobody's: most go over an end.
bool block_before(uintptr_t address, Allocation* block);
// In words: whose an address is that kernels in the context cannot use.
std::string whose(CUcontext context, uintptr_t address);

}  // namespace devtrace::simulate

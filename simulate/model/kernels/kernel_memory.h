// What a computed kernel finds of a device's memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "simulate/common/cuda_headers.h"
#include "simulate/kernels/machine.h"
#include "simulate/values/uncomputed.h"

namespace devtrace::simulate {

class KernelMemory : public kernels::Memory {
 public:
  explicit KernelMemory(CUcontext context) : context_(context), follows_(values::any_uncomputed()) {}
  bool find(uintptr_t address, kernels::Extent* extent) override;
  uintptr_t allocate(size_t size) override;
  void release(uintptr_t address) override;
  bool texture(uint64_t handle, kernels::Texture* found, std::string* why) override;
  bool follows() const override { return follows_; }
  void used(uintptr_t address, size_t size, bool writes) override;
  // For a launch all of whose blocks may wait for each other.
  uint64_t workspace() const { return reinterpret_cast<uint64_t>(&workspace_); }
  // What the kernel wrote is as computed as what it read.
  void finish();

 private:
  CUcontext context_;
  const bool follows_;
  alignas(8) uint32_t workspace_[2] = {sizeof workspace_, 0};
  std::mutex mutex_;
  values::Source source_ = 0;
  std::vector<std::pair<uintptr_t, size_t>> written_;
};

// In words: whose an address is that kernels in the context cannot use.
std::string whose(CUcontext context, uintptr_t address);

}  // namespace devtrace::simulate

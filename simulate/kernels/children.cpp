#include "simulate/kernels/children.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace devtrace::simulate::kernels {

constexpr size_t kMostWaiting = size_t{1} << 20;

uint64_t Children::buffer(Memory& memory, const Child& child, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (buffers_.size() + launched_.size() >= kMostWaiting) return 0;
  const uint64_t address = memory.allocate(std::max<size_t>(bytes, 1));
  if (!address) return 0;
  Child& kept = buffers_[address] = child;
  kept.parameters.resize(bytes);
  return address;
}

bool Children::launch(Memory& memory, uint64_t buffer, bool at_the_end) {
  std::lock_guard lock(mutex_);
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return false;
  Child child = std::move(found->second);
  buffers_.erase(found);
  child.at_the_end = at_the_end;
  std::memcpy(child.parameters.data(), reinterpret_cast<const void*>(buffer), child.parameters.size());
  memory.release(buffer);
  launched_.push_back(std::move(child));
  return true;
}

bool Children::launch(Memory& memory, uint64_t buffer, Child child) {
  {
    std::lock_guard lock(mutex_);
    const auto found = buffers_.find(buffer);
    if (found == buffers_.end()) return false;
    child.parameters = std::move(found->second.parameters);
    found->second = child;
  }
  return launch(memory, buffer, child.at_the_end);
}

void Children::add(Child child) {
  std::lock_guard lock(mutex_);
  if (launched_.size() < kMostWaiting) launched_.push_back(std::move(child));
}

std::vector<Child> Children::take() {
  std::lock_guard lock(mutex_);
  std::ranges::stable_partition(launched_, [](const Child& one) { return !one.at_the_end; });
  std::ranges::reverse(launched_);
  return std::exchange(launched_, {});
}

void Children::release(Memory& memory) {
  std::lock_guard lock(mutex_);
  for (const auto& [address, child] : buffers_) memory.release(address);
  buffers_.clear();
}

}  // namespace devtrace::simulate::kernels

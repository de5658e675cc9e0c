#include "simulate/nccl/window.h"

#include <mutex>
#include <unordered_map>

#include "simulate/common/library.h"

namespace devtrace::simulate::nccl {
namespace {

struct Live {
  std::mutex mutex;
  std::unordered_map<ncclWindow_t, std::shared_ptr<Window>> windows;
};
Live& live() {
  static auto* all = new Live;
  return *all;
}

}  // namespace

std::shared_ptr<Window> window_of(ncclWindow_t handle) {
  const std::lock_guard lock(live().mutex);
  const auto at = live().windows.find(handle);
  return at == live().windows.end() ? nullptr : at->second;
}

ncclWindow_t handle_of(const std::shared_ptr<Window>& window) {
  auto* const handle = reinterpret_cast<ncclWindow_t>(window.get());
  const std::lock_guard lock(live().mutex);
  live().windows[handle] = window;
  return handle;
}

void forget_window(ncclWindow_t handle) {
  const std::lock_guard lock(live().mutex);
  live().windows.erase(handle);
}

void forget_windows(const Rank& rank) {
  const std::lock_guard lock(live().mutex);
  std::erase_if(live().windows, [&](const auto& each) { return each.second->rank().get() == &rank; });
}

bool is_registered(const Rank& rank, const void* memory, size_t bytes) {
  const std::lock_guard lock(live().mutex);
  for (const auto& [handle, window] : live().windows)
    if (window->rank().get() == &rank && window->contains(memory, bytes)) return true;
  return false;
}

Window::Window(std::shared_ptr<Rank> rank, void* memory, size_t bytes) : rank_(std::move(rank)), own_{} {
  own_.process = this_process();
  own_.memory = static_cast<uint8_t*>(memory);
  own_.bytes = bytes;
  const Current current(rank_->context);
  const auto at = reinterpret_cast<CUdeviceptr>(memory);
  CUdeviceptr block = 0;
  own_.shared = cuMemGetAddressRange(&block, nullptr, at) == CUDA_SUCCESS &&
                devtrace_sim_memory_handle(&own_.handle, at) == CUDA_SUCCESS;
  own_.offset = at - block;
}

Window::~Window() {
  const Current current(rank_->context);
  for (const CUdeviceptr each : opened_) cuIpcCloseMemHandle(each);
}

void Window::publish() {
  parts_.resize(static_cast<size_t>(rank_->size));
  agreement_.call = {OperationKind::kAllGather, ncclInt8, ncclSum, 0, sizeof own_};
  agreement_.channel = kOfHosts;
  agreement_.send = &own_;
  agreement_.receive = parts_.data();
  post(*rank_, agreement_);
}

ncclResult_t Window::open() {
  finish({{rank_.get(), &agreement_}});
  if (!agreement_.taken) return rank_->error == ncclSuccess ? ncclInvalidUsage : rank_->error.load();
  for (const Part& part : parts_) reached_.push_back(reach(part));
  return ncclSuccess;
}

uint8_t* Window::reach(const Part& part) {
  if (part.process.pid == own_.process.pid && part.process.started == own_.process.started) return part.memory;
  const Current current(rank_->context);
  CUdeviceptr block = 0;
  if (!part.shared || cuIpcOpenMemHandle(&block, part.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return nullptr;
  opened_.push_back(block);
  return reinterpret_cast<uint8_t*>(block) + part.offset;
}

bool Window::contains(const void* at, size_t bytes) const {
  const auto* const begin = static_cast<const uint8_t*>(at);
  return begin >= own_.memory && begin + bytes <= own_.memory + own_.bytes;
}

void* Window::at(int rank, size_t offset, size_t bytes) const {
  if (rank < 0 || rank >= static_cast<int>(reached_.size())) return nullptr;
  const auto index = static_cast<size_t>(rank);
  const size_t size = parts_[index].bytes;
  return !reached_[index] || offset > size || bytes > size - offset ? nullptr : reached_[index] + offset;
}

}  // namespace devtrace::simulate::nccl

#include "simulate/nccl/window.h"

#include "simulate/common/library.h"
#include "simulate/nccl/live.h"

namespace devtrace::simulate::nccl {
namespace {

Live<ncclWindow_t, Window>& live() {
  static auto* all = new Live<ncclWindow_t, Window>;
  return *all;
}

}  // namespace

std::shared_ptr<Window> window_of(ncclWindow_t handle) {
  return live().find(handle);
}

ncclWindow_t handle_of(const std::shared_ptr<Window>& window) {
  return live().add(window);
}

void forget_window(ncclWindow_t handle) {
  live().remove(handle);
}

void forget_windows(const Rank& rank) {
  live().remove_if([&](const Window& each) { return each.rank().get() == &rank; });
}

bool is_registered(const Rank& rank, const void* memory, size_t bytes) {
  return live().any_of([&](const Window& each) { return each.rank().get() == &rank && each.contains(memory, bytes); });
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

// Windows: memory that each rank of a communicator has registered, and that the others reach.
#pragma once

#include <memory>
#include <vector>

#include "common/running_process.h"
#include "simulate/nccl/communicator.h"

namespace devtrace::simulate::nccl {

class Window {
 public:
  Window(std::shared_ptr<Rank> rank, void* memory, size_t bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // All ranks have to register theirs: tells them of this one, and waits for what they tell. In two steps, so that a
  // thread can take the first for all its ranks before it waits.
  void publish();
  ncclResult_t open();

  const std::shared_ptr<Rank>& rank() const { return rank_; }
  void* memory() const { return own_.memory; }
  bool contains(const void* at, size_t bytes) const;
  // A rank's memory at that offset, as this process reaches it. Null: that many bytes are not in it, or it is another
  // process's that cannot be shared (host memory, virtual memory management, pools).
  void* at(int rank, size_t offset, size_t bytes) const;

 private:
  struct Part {
    RunningProcess process;
    uint8_t* memory;
    size_t bytes, offset;  // in the block that the handle is of
    bool shared;
    CUipcMemHandle handle;
  };
  uint8_t* reach(const Part& part);

  const std::shared_ptr<Rank> rank_;
  Part own_;
  Exchange agreement_;
  std::vector<Part> parts_;  // by rank
  std::vector<uint8_t*> reached_;
  std::vector<CUdeviceptr> opened_;
};

// A handle that lives; null: none.
std::shared_ptr<Window> window_of(ncclWindow_t handle);
ncclWindow_t handle_of(const std::shared_ptr<Window>& window);
void forget_window(ncclWindow_t handle);
void forget_windows(const Rank& rank);
// Whether all of it is in one window of the rank's.
bool is_registered(const Rank& rank, const void* memory, size_t bytes);

}  // namespace devtrace::simulate::nccl

// Functions of NCCL's about windows, and messages into them that the other rank does nothing for.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simulate/nccl/calls.h"

namespace devtrace::simulate::nccl {
namespace {

ncclResult_t no_window() {
  return refuse(ncclInvalidArgument, "window argument is not a window");
}

// NCCL up to 2.30 has one signal, one context and no flags.
ncclResult_t check(const char* function, int signal, int context, unsigned flags) {
  if (signal == 0 && context == 0 && flags == 0) return ncclSuccess;
  return refuse(ncclInvalidArgument, std::string(function) + ": signal index, context and flags have to be 0");
}

ncclResult_t pointer_of(ncclWindow_t handle, size_t offset, int rank, void** pointer) {
  const std::shared_ptr<Window> window = window_of(handle);
  if (!window || !pointer) return no_window();
  *pointer = window->at(rank, offset, 0);
  if (*pointer) return ncclSuccess;
  return refuse(ncclInvalidArgument, "rank " + std::to_string(rank) +
                                         " has no memory that this one reaches at offset " + std::to_string(offset) +
                                         " of the window");
}

}  // namespace
}  // namespace devtrace::simulate::nccl

namespace sim = devtrace::simulate::nccl;
using sim::OperationKind;

extern "C" {

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t size, ncclWindow_t* handle, int) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!handle || !rank) return sim::no_communicator();
  if (reinterpret_cast<uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT)
    return sim::refuse(ncclInvalidArgument, "a window begins at a multiple of 4096 bytes");
  const auto window = std::make_shared<sim::Window>(rank, memory, size);
  *handle = sim::handle_of(window);
  return sim::register_window(window);
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (!sim::rank_of(comm)) return sim::no_communicator();
  sim::forget_window(window);
  return ncclSuccess;
}
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t handle, void** memory) {
  if (!memory || !sim::rank_of(comm)) return sim::no_communicator();
  const std::shared_ptr<sim::Window> window = sim::window_of(handle);
  *memory = window ? window->memory() : nullptr;
  return ncclSuccess;
}

ncclResult_t ncclPutSignal(const void* local, size_t count, ncclDataType_t type, int peer, ncclWindow_t handle,
                           size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  const std::shared_ptr<sim::Window> window = sim::window_of(handle);
  if (!rank) return sim::no_communicator();
  if (!window) return sim::no_window();
  if (const ncclResult_t result = sim::check("ncclPutSignal", signal, context, flags)) return result;
  const size_t bytes = count * sim::size_of(type);
  if (!sim::is_registered(*rank, local, bytes))
    return sim::refuse(ncclInvalidArgument, "ncclPutSignal: what is sent is in no window of this rank");
  void* const to = window->at(peer, offset, bytes);
  if (!to)
    return sim::refuse(ncclInvalidArgument, "ncclPutSignal: " + std::to_string(bytes) + " bytes at offset " +
                                                std::to_string(offset) + " are not in a window of rank " +
                                                std::to_string(peer) + " that this one reaches");
  sim::Request request = {rank, stream, {}, window};
  request.exchange.call = {OperationKind::kPutSignal, type, ncclSum, peer, count};
  request.exchange.send = local;
  request.exchange.receive = to;
  return sim::submit(std::move(request));
}
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t result = sim::check("ncclSignal", signal, context, flags)) return result;
  sim::Request request = {sim::rank_of(comm), stream, {}};
  request.exchange.call = {OperationKind::kPutSignal, ncclInt8, ncclSum, peer, 0};
  return sim::submit(std::move(request));
}
ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm, cudaStream_t stream) {
  const std::shared_ptr<sim::Rank> rank = sim::rank_of(comm);
  if (!rank) return sim::no_communicator();
  if (count < 1 || !signals) return sim::refuse(ncclInvalidArgument, "ncclWaitSignal: no signal is waited for");
  std::vector<uint64_t> awaited(static_cast<size_t>(rank->size));
  for (int i = 0; i < count; ++i) {
    const ncclWaitSignalDesc_t& each = signals[i];
    if (const ncclResult_t result = sim::check("ncclWaitSignal", each.sigIdx, each.ctx, 0)) return result;
    if (each.opCnt < 1 || each.peer < 0 || each.peer >= rank->size)
      return sim::refuse(ncclInvalidArgument, "ncclWaitSignal: " + std::to_string(each.opCnt) + " signals of rank " +
                                                  std::to_string(each.peer));
    awaited[static_cast<size_t>(each.peer)] += static_cast<uint64_t>(each.opCnt);
  }
  sim::Request request = {rank, stream, {}};
  request.exchange.call = {OperationKind::kWaitSignal, ncclInt8, ncclSum, signals[0].peer, 0};
  for (int peer = 0; peer < rank->size; ++peer)
    if (const uint64_t wanted = awaited[static_cast<size_t>(peer)]) request.exchange.awaited.push_back({peer, wanted});
  return sim::submit(std::move(request));
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** pointer) {
  return sim::pointer_of(window, offset, peer, pointer);
}
// All ranks of one machine are a team that loads and stores.
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void** pointer) {
  return sim::pointer_of(window, offset, rank, pointer);
}
// Null where devices have no multicast, as these.
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t, void** pointer) {
  if (!pointer || !sim::window_of(window)) return sim::no_window();
  *pointer = nullptr;
  return ncclSuccess;
}

}  // extern "C"

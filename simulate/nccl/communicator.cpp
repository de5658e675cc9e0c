#include "simulate/nccl/communicator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulate/nccl/live.h"
#include "simulate/nccl/window.h"

namespace devtrace::simulate::nccl {
namespace {

Live<ncclComm_t, Rank>& live() {
  static auto* all = new Live<ncclComm_t, Rank>;
  return *all;
}

// What is enqueued together: a call, or all between ncclGroupStart and ncclGroupEnd. Done again at each launch of a
// graph that has captured it.
struct Unit {
  std::vector<Request> requests;

  std::vector<Waiting> all() {
    std::vector<Waiting> found;
    for (Request& each : requests) found.push_back({each.rank.get(), &each.exchange});
    return found;
  }
};

// Whether nobody has to be waited for.
int is_ready(void* data) {
  bool ready = true;
  for (const Waiting& each : static_cast<Unit*>(data)->all()) post(*each.place, *each.exchange);
  for (const Waiting& each : static_cast<Unit*>(data)->all())
    ready &= is_dropped(*each.place, *each.exchange) || take(*each.place, *each.exchange);
  return ready;
}

void run(void* data) {
  const std::vector<Waiting> all = static_cast<Unit*>(data)->all();
  finish(all);
  for (const Waiting& each : all) {
    each.exchange->number = 0;
    each.exchange->taken = false;
  }
}

bool launch(const Request& each, Unit* unit) {
  const Current current(each.rank->context);
  // What is put into another rank's memory is moved by NCCL, whose way this device's kernels need not have.
  void* const written = each.exchange.call.kind == OperationKind::kPutSignal ? nullptr : each.exchange.receive;
  return devtrace_sim_library_meet(
             "ncclDevKernel", each.stream, each.exchange.send, written, unit ? is_ready : nullptr,
             unit ? run : [](void*) {}, [](void* data) { delete static_cast<Unit*>(data); }, unit) == CUDA_SUCCESS;
}

bool reach(const Request& each) {
  const Current current(each.rank->context);
  return cuEventRecord(each.rank->reached, each.stream) == CUDA_SUCCESS;
}

bool wait(const Request& each, const Request& other) {
  const Current current(each.rank->context);
  return cuStreamWaitEvent(each.stream, other.rank->reached, 0) == CUDA_SUCCESS;
}

bool is_capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// What a rank asks for is done in the order in which it was asked for, in whichever streams. Ranks may otherwise meet
// in another order than the others.
bool keep_order(const Request& each) {
  Rank& rank = *each.rank;
  const std::lock_guard lock(rank.mutex);
  const Current current(rank.context);
  const bool captured = is_capturing(each.stream);
  CUstream const before = std::exchange(rank.last, captured ? nullptr : each.stream);
  if (!before || before == each.stream || captured) return true;
  return cuStreamWaitEvent(each.stream, rank.reached, 0) == CUDA_SUCCESS;
}

// A kernel for each. All is done in the first one's stream, once the others are there, and they go on after that.
bool enqueue(std::vector<Request> all) {
  const Request first = all[0];
  // What is put in another stream meanwhile may be what the other rank answers to.
  if (all.size() == 1 && first.exchange.call.kind == OperationKind::kWaitSignal) return launch(first, new Unit{all});
  for (const Request& each : all)
    if (!keep_order(each)) return false;
  const auto is_apart = [&](const Request& each) {
    return each.stream != first.stream || each.rank->context != first.rank->context;
  };
  for (size_t i = 1; i < all.size(); ++i)
    if (!launch(all[i], nullptr) || (is_apart(all[i]) && (!reach(all[i]) || !wait(first, all[i])))) return false;
  auto* const unit = new Unit{all};
  if (!launch(first, unit) || !reach(first)) return false;
  for (size_t i = 1; i < all.size(); ++i)
    if ((is_apart(all[i]) && !wait(all[i], first)) || (all[i].rank != first.rank && !reach(all[i]))) return false;
  return true;
}

}  // namespace

Rank::~Rank() {
  cuDevicePrimaryCtxRelease(device);
  // The event stays: a stream or a graph may still come to it.
}

std::shared_ptr<Rank> rank_of(ncclComm_t handle) {
  return live().find(handle);
}

std::shared_ptr<Rank> make(int device) {
  CUcontext context = nullptr;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, device)) return nullptr;
  auto rank = std::make_shared<Rank>();
  rank->device = device;
  rank->context = context;
  const Current current(context);
  if (cuEventCreate(&rank->reached, CU_EVENT_DISABLE_TIMING)) return nullptr;
  return rank;
}

ncclComm_t handle_of(const std::shared_ptr<Rank>& rank) {
  return live().add(rank);
}

bool close(ncclComm_t handle, bool abort) {
  const std::shared_ptr<Rank> rank = live().remove(handle);
  if (!rank) return false;
  if (abort) rank->aborted = true;
  forget_windows(*rank);
  if (rank->region) leave(*rank);
  return true;
}

ncclResult_t Joining::refuse(ncclResult_t code, std::string why) {
  why_ = std::move(why);
  rank_->error = code;
  return code;
}

ncclResult_t Joining::start() {
  if (!parent_) return enter_region();
  if (!ranks_.empty()) return invites_ ? answered(invite(*parent_, ranks_, id_)) : ncclSuccess;
  own_ = {color_, key_, parent_->rank, {}};
  if (color_ != NCCL_SPLIT_NOCOLOR && !Region::create(&own_.id))
    return refuse(ncclSystemError, "no memory to share with other ranks");
  said_.resize(static_cast<size_t>(parent_->size));
  agreement_.call = {OperationKind::kAllGather, ncclInt8, ncclSum, 0, sizeof own_};
  agreement_.channel = kOfHosts;
  agreement_.send = &own_;
  agreement_.receive = said_.data();
  post(*parent_, agreement_);
  return ncclSuccess;
}

ncclResult_t Joining::enter() {
  if (!parent_) return ncclSuccess;
  if (ranks_.empty()) return enter_with_color();
  const ncclResult_t result = invites_ ? ncclSuccess : answered(await_invitation(*parent_, ranks_, from_, &id_));
  return result == ncclSuccess ? enter_region() : result;
}

ncclResult_t Joining::answered(std::string why) {
  return why.empty() ? ncclSuccess : refuse(ncclRemoteError, std::move(why));
}

ncclResult_t Joining::enter_with_color() {
  finish({{parent_.get(), &agreement_}});
  if (!agreement_.taken) return refuse(ncclRemoteError, "the communicator that is split was aborted");
  if (color_ == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  std::erase_if(said_, [&](const Said& each) { return each.color != color_; });
  std::stable_sort(said_.begin(), said_.end(), [](const Said& a, const Said& b) { return a.key < b.key; });
  const auto own = std::find_if(said_.begin(), said_.end(), [&](const Said& each) { return each.rank == own_.rank; });
  rank_->rank = static_cast<int>(own - said_.begin());
  rank_->size = static_cast<int>(said_.size());
  id_ = said_[0].id;
  for (const Said& each : said_) ranks_.push_back(each.rank);
  if (rank_->rank > 0) Region::close(own_.id);
  return enter_region();
}

ncclResult_t Joining::enter_region() {
  rank_->region = Region::open(id_);
  if (!rank_->region)
    return refuse(ncclRemoteError,  // which the real library says, too, of a root that nobody listens at
                  "rank " + std::to_string(rank_->rank) + ": the process that has made the communicator's id is gone");
  Identity identity;
  CUuuid uuid;
  char bus[32] = "";
  if (cuDeviceGetUuid(&uuid, rank_->device) || cuDeviceGetPCIBusId(bus, sizeof bus, rank_->device))
    return refuse(ncclUnhandledCudaError, "a CUDA call failed");
  std::memcpy(identity.device, uuid.bytes, sizeof identity.device);
  std::string digits;
  for (const char each : std::string(bus))
    if (each != ':' && each != '.') digits += each;
  identity.bus = std::stoull(digits, nullptr, 16);
  const std::string why = nccl::enter(*rank_, identity);
  return why.empty() ? ncclSuccess : refuse(ncclInvalidUsage, why);
}

ncclResult_t Joining::meet() {
  if (!rank_->region) return ncclSuccess;  // of no color
  const std::string why = nccl::meet(*rank_, parent_.get(), ranks_);
  Region::close(id_);
  if (!why.empty()) return answered(why);
  const Shared& shared = rank_->region->shared();
  for (int a = 0; a < rank_->size; ++a)
    for (int b = a + 1; b < rank_->size; ++b)
      if (std::memcmp(shared.members[a].device, shared.members[b].device, sizeof shared.members[a].device) == 0) {
        char bus[32];
        std::snprintf(bus, sizeof bus, "%llx", shared.members[a].bus);
        return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " +
                                            std::to_string(b) + " both on CUDA device " + bus);
      }
  return ncclSuccess;
}

ncclResult_t perform(std::vector<Request> requests) {
  return requests.empty() || enqueue(std::move(requests)) ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace devtrace::simulate::nccl

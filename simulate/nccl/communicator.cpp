#include "simulate/nccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "simulate/nccl/reduction.h"

namespace devtrace::simulate::nccl {
namespace {

struct Live {
  std::mutex mutex;
  std::unordered_set<const Rank*> ranks;
};
Live& live() {
  static auto* all = new Live;
  return *all;
}

class Current {
 public:
  explicit Current(CUcontext context) : set_(cuCtxPushCurrent(context) == CUDA_SUCCESS) {}
  ~Current() {
    CUcontext popped;
    if (set_) cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const bool set_;
};

// One request a rank, in the order of the ranks; a message has the sender and the receiver.
using Together = std::vector<Request>;

uint8_t* at(void* memory, size_t bytes) {
  return static_cast<uint8_t*>(memory) + bytes;
}
const uint8_t* at(const void* memory, size_t bytes) {
  return static_cast<const uint8_t*>(memory) + bytes;
}

void copy(void* to, const void* from, size_t bytes) {
  if (to && from && bytes) std::memmove(to, from, bytes);
}

// What every rank sends, from its `first` byte on.
std::vector<const void*> parts_of(const Together& all, size_t first) {
  std::vector<const void*> parts;
  for (const Request& each : all) parts.push_back(at(each.send, first));
  return parts;
}

void reduce_all(const Together& all) {
  const Request& one = all[0];
  const size_t bytes = one.count * size_of(one.type);
  std::vector<uint8_t> sum(bytes);
  reduce(parts_of(all, 0), sum.data(), one.count, one.type, one.op);
  for (const Request& each : all)
    if (one.kind == OperationKind::kAllReduce || each.rank->rank == one.other) copy(each.receive, sum.data(), bytes);
}

void scatter_sums(const Together& all) {
  const Request& one = all[0];
  const size_t bytes = one.count * size_of(one.type);
  std::vector<uint8_t> sums(all.size() * bytes);
  for (size_t i = 0; i < all.size(); ++i)
    reduce(parts_of(all, i * bytes), sums.data() + i * bytes, one.count, one.type, one.op);
  for (size_t i = 0; i < all.size(); ++i) copy(all[i].receive, sums.data() + i * bytes, bytes);
}

void exchange(const Together& all) {
  const size_t bytes = all[0].count * size_of(all[0].type);
  std::vector<std::vector<uint8_t>> sent;  // may be received into the same memory
  for (const Request& each : all)
    sent.emplace_back(at(each.send, 0),
                      at(each.send, all[0].kind == OperationKind::kAllToAll ? all.size() * bytes : bytes));
  for (size_t to = 0; to < all.size(); ++to)
    for (size_t from = 0; from < all.size(); ++from)
      copy(at(all[to].receive, from * bytes),
           sent[from].data() + (all[0].kind == OperationKind::kAllToAll ? to * bytes : 0), bytes);
}

void compute(const Together& all) {
  const Request& one = all[0];
  if (one.count == 0) return;
  switch (one.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      return reduce_all(all);
    case OperationKind::kReduceScatter:
      return scatter_sums(all);
    case OperationKind::kAllGather:
    case OperationKind::kAllToAll:
      return exchange(all);
    case OperationKind::kBroadcast:
      for (const Request& each : all)
        copy(each.receive, all[static_cast<size_t>(one.other)].send, one.count * size_of(one.type));
      return;
    case OperationKind::kSend:
    case OperationKind::kReceive:
      return copy(all[1].receive, one.send, one.count * size_of(one.type));
  }
}

// What the rank writes to; what it reads, where it writes nothing.
void* memory_of(const Request& each) {
  const bool writes = each.receive && (each.kind != OperationKind::kReduce || each.rank->rank == each.other);
  return writes ? each.receive : const_cast<void*>(each.send);
}

bool launch(const Request& each, void (*run)(void*), Together* data) {
  const Current current(each.rank->context);
  return devtrace_sim_library_compute(
             "ncclDevKernel", each.stream, memory_of(each), run, [](void* all) { delete static_cast<Together*>(all); },
             data) == CUDA_SUCCESS;
}

bool reach(const Request& each) {
  const Current current(each.rank->context);
  return cuEventRecord(each.rank->reached, each.stream) == CUDA_SUCCESS;
}

bool wait(const Request& each, const Request& other) {
  const Current current(each.rank->context);
  return cuStreamWaitEvent(each.stream, other.rank->reached, 0) == CUDA_SUCCESS;
}

// A kernel on each rank's stream. It is computed on the first one's, once all streams are there, and the others go on
// after that.
bool enqueue(const Together& all) {
  const Request& first = all[0];
  for (size_t i = 1; i < all.size(); ++i) {
    const auto nothing = [](void*) {};
    if (!launch(all[i], nothing, nullptr) || !reach(all[i]) || !wait(first, all[i])) return false;
  }
  const auto run = [](void* data) { compute(*static_cast<Together*>(data)); };
  if (!launch(first, run, new Together(all)) || (all.size() > 1 && !reach(first))) return false;
  for (size_t i = 1; i < all.size(); ++i)
    if (!wait(all[i], first)) return false;
  return true;
}

bool is_message(const Request& each) {
  return each.kind == OperationKind::kSend || each.kind == OperationKind::kReceive;
}

// The ones that belong to `each`, in their order; fewer than all ranks' while some have not asked.
std::vector<Request*> partners(const Ranks& ranks, Request* each) {
  std::vector<Request*> found;
  if (is_message(*each)) {
    const bool sends = each->kind == OperationKind::kSend;
    for (Request* other : ranks.waiting)
      if (is_message(*other) && other->kind != each->kind && other->rank->rank == each->other &&
          other->other == each->rank->rank)
        return sends ? std::vector{each, other} : std::vector{other, each};
    return {};
  }
  for (int rank = 0; rank < ranks.size; ++rank)
    for (Request* other : ranks.waiting)
      if (!is_message(*other) && other->rank->rank == rank) {
        found.push_back(other);
        break;
      }
  return found;
}

size_t needed(const Ranks& ranks, const Request& each) {
  return is_message(each) ? 2 : static_cast<size_t>(ranks.size);
}

// Enqueues everything that is complete. The ranks' mutex is held.
bool match(Ranks& ranks) {
  bool good = true;
  for (auto at = ranks.waiting.begin(); at != ranks.waiting.end();) {
    const std::vector<Request*> all = partners(ranks, *at);
    if (all.size() < needed(ranks, **at) || std::find(all.begin(), all.end(), *at) == all.end()) {
      ++at;
      continue;
    }
    Together together;
    for (const Request* each : all) together.push_back(*each);
    good &= enqueue(together);
    for (Request* each : all) ranks.waiting.remove(each);
    at = ranks.waiting.begin();
    ranks.matched.notify_all();
  }
  return good;
}

}  // namespace

std::vector<Rank*> make(const std::vector<int>& devices) {
  std::vector<Rank*> made;
  const auto ranks = std::make_shared<Ranks>();
  ranks->size = static_cast<int>(devices.size());
  for (const int device : devices) {
    auto* rank = new Rank{ranks, static_cast<int>(made.size()), device, nullptr, nullptr};
    bool good = cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&rank->context, device) == CUDA_SUCCESS;
    if (good) {
      const Current current(rank->context);
      good = cuEventCreate(&rank->reached, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    }
    if (!good) {
      delete rank;
      for (Rank* each : made) destroy(each);
      return {};
    }
    made.push_back(rank);
    std::lock_guard lock(live().mutex);
    live().ranks.insert(rank);
  }
  return made;
}

bool alive(const Rank* rank) {
  std::lock_guard lock(live().mutex);
  return live().ranks.count(rank) == 1;
}

bool destroy(Rank* rank) {
  {
    std::lock_guard lock(live().mutex);
    if (live().ranks.erase(rank) == 0) return false;
  }
  cuDevicePrimaryCtxRelease(rank->device);
  // The rest stays: a stream or a graph may still come to its event and to what was enqueued.
  return true;
}

ncclResult_t perform(std::vector<Request> requests) {
  bool good = true;
  for (Request& each : requests) {
    Ranks& ranks = *each.rank->ranks;
    std::lock_guard lock(ranks.mutex);
    ranks.waiting.push_back(&each);
  }
  for (Request& each : requests) {
    Ranks& ranks = *each.rank->ranks;
    std::unique_lock lock(ranks.mutex);
    good &= match(ranks);
    ranks.matched.wait(
        lock, [&] { return std::find(ranks.waiting.begin(), ranks.waiting.end(), &each) == ranks.waiting.end(); });
  }
  return good ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace devtrace::simulate::nccl

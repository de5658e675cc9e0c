// Streams and events. Work is done where it is enqueued, by the calling thread, which is an order that hardware could
// have chosen too. Only host functions run on a thread of their own; whatever is enqueued behind them waits in the
// stream's queue. With --async all of it is otherwise: asynchronous/schedule.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "simulate/common/cuda_headers.h"
#include "simulate/model/operation.h"

namespace devtrace::simulate {

struct Capture;

}  // namespace devtrace::simulate

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  CUstreamAttrValue attributes[16] = {};

  std::mutex mutex;
  std::condition_variable idle;
  std::deque<devtrace::simulate::Operation> queue;  // behind a host function; its worker empties it
  std::atomic<bool> busy{false};

  std::shared_ptr<devtrace::simulate::Capture> capture;  // null unless capturing
  std::vector<CUgraphNode> tips;                         // what the next captured node depends on
};

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  std::mutex mutex;
  std::condition_variable reached;
  std::atomic<uint64_t> recorded{0}, completed{0};  // turns
  double seconds = 0;                               // when last completed
  bool timed = true;
  int queued = 0;                                        // operations in streams' queues that name it
  bool destroyed = false;                                // it goes with the last of them
  std::shared_ptr<devtrace::simulate::Capture> capture;  // recorded in a capturing stream
  std::vector<CUgraphNode> tips;
};

namespace devtrace::simulate {

// The simulated devices' priorities: 0 is the least, -5 the greatest.
constexpr int kGreatestPriority = -5;
constexpr int nearest_priority(int priority) {
  return priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
}

CUstream create_stream(CUcontext context, unsigned flags, int priority);
// Waits for its work, as the driver frees a stream's resources only then.
void destroy_stream(CUstream stream);

// What a handle stands for in the current context: null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD included.
CUresult resolve(CUstream handle, CUstream* stream);

// Does the operation, captures it, or queues it: whichever the stream's state asks for.
CUresult submit(CUstream stream, Operation operation);

void synchronize(CUstream stream);
// Waits for all streams of a context; null: of all.
void synchronize_context(CUcontext context);
// All that streams have yet to do because they run behind the host, or wait for other processes. Before something goes
// that it names, for one.
void finish_work();
inline bool is_idle(CUstream stream) {
  return !stream->busy.load(std::memory_order_acquire);
}

// The event's next recording was reached; and waiting for one.
void complete_event(CUevent event, uint64_t turn);
void wait_event(CUevent event, uint64_t turn);
// True: a stream's queue names it still, and it is deleted behind that.
bool outlives_destruction(CUevent event);
CUresult record_event(CUevent event, CUstream stream, bool external);
CUresult stream_wait_event(CUstream stream, CUevent event, bool external);

}  // namespace devtrace::simulate

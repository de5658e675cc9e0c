#include "simulate/model/stream.h"

#include <chrono>
#include <thread>

#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/device.h"
#include "simulate/model/graph/capture.h"
#include "simulate/model/profiler_callbacks.h"
#include "simulate/values/values.h"
#include "simulate/values/without_gil.h"

namespace devtrace::simulate {
namespace {

std::atomic<int> g_busy{0};  // busy streams; zero is the fast path everywhere
// Whether work of this process has ever waited for another one's: then operators wait for their stream.
std::atomic<bool> g_met{false};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool blocking(CUstream s) {
  return !(s->flags & CU_STREAM_NON_BLOCKING);
}

// The default stream waits for the blocking streams of its context, and they for it.
void wait_for_default_order(CUstream stream) {
  if (g_busy.load(std::memory_order_acquire) == 0 || !blocking(stream)) return;
  std::vector<CUstream> others;
  handles<CUstream_st>().for_each([&](CUstream s) {
    bool legacy = stream == stream->context->legacy || s == stream->context->legacy;
    if (s != stream && s->context == stream->context && blocking(s) && legacy && !is_idle(s)) others.push_back(s);
  });
  for (CUstream s : others) synchronize(s);
}

void keep(CUevent event) {
  if (!event) return;
  std::lock_guard lock(event->mutex);
  ++event->queued;
}

void let_go(CUevent event) {
  if (!event) return;
  std::unique_lock lock(event->mutex);
  if (--event->queued > 0 || !event->destroyed) return;
  lock.unlock();
  delete event;
}

void work(CUstream stream) {
  for (;;) {
    Operation operation;
    {
      std::lock_guard lock(stream->mutex);
      if (stream->queue.empty()) {
        stream->busy.store(false, std::memory_order_release);
        g_busy.fetch_sub(1);
        stream->idle.notify_all();
        return;
      }
      operation = std::move(stream->queue.front());
      stream->queue.pop_front();
    }
    if (CUresult e = execute(operation))
      if (operation.context) operation.context->sticky = e;
    let_go(operation.event);
  }
}

// Whether the operation has to leave the calling thread.
bool waits(const Operation& operation) {
  if (operation.type == CU_GRAPH_NODE_TYPE_HOST) return true;
  if (waits_for_others(operation)) {
    g_met = true;
    return true;
  }
  return operation.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && operation.event->completed < operation.event_turn;
}

}  // namespace

CUstream create_stream(CUcontext context, unsigned flags, int priority) {
  static std::atomic<unsigned long long> next{1};
  auto* stream = new CUstream_st;
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = next.fetch_add(1);
  handles<CUstream_st>().add(stream);
  return stream;
}

void destroy_stream(CUstream stream) {
  if (!handles<CUstream_st>().remove(stream)) return;
  synchronize(stream);
  leave_capture(stream);
  if (is_async()) asynchronous::forget(stream);
  { std::lock_guard lock(stream->mutex); }  // its worker may still be letting go of the lock
  delete stream;
}

CUresult resolve(CUstream handle, CUstream* stream) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    if (!handles<CUstream_st>().has(handle)) return CUDA_ERROR_INVALID_HANDLE;
    *stream = handle;
    return CUDA_SUCCESS;
  }
  REQUIRE_CONTEXT(context);
  if (handle != CU_STREAM_PER_THREAD) {
    *stream = context->legacy;
    return CUDA_SUCCESS;
  }
  // A per-thread stream a context; few contexts, so a short list. Left behind when the thread ends, like everything a
  // thread leaves: a destructor here could run after the model's users are gone.
  struct Mine {
    CUcontext context;
    CUstream stream;
  };
  static thread_local Mine mine[2 * kMaxDevices];
  for (Mine& m : mine) {
    if (!m.context) m = {context, create_stream(context, CU_STREAM_DEFAULT, 0)};
    if (m.context == context) {
      *stream = m.stream;
      return CUDA_SUCCESS;
    }
  }
  *stream = context->legacy;
  return CUDA_SUCCESS;
}

CUresult submit(CUstream stream, Operation operation) {
  operation.in_operator |= values::in_operator();  // a graph's node keeps what it was captured with
  operation.copies_suppressed |= values::copies_suppressed();
  operation.deferred |= values::t_thread.kernels_deferred > 0;
  if (!operation.context) operation.context = stream->context;
  if (work_listener()) {
    operation.correlation = current_correlation();
    operation.stream = static_cast<uint32_t>(stream->id);
  }
  if (capturing(stream)) return capture(stream, operation);
  if (CUresult e = check_implicit(stream)) return e;
  if (is_async()) return asynchronous::enqueue(stream, std::move(operation));
  wait_for_default_order(stream);
  // What it computes, it computes when it has been launched, and may read what others have yet to send.
  if (operation.in_operator && g_met) synchronize(stream);
  if (is_idle(stream) && !waits(operation)) return execute(operation);
  bool start = false;
  {
    std::lock_guard lock(stream->mutex);
    keep(operation.event);
    stream->queue.push_back(std::move(operation));
    if (!stream->busy.load()) {
      start = true;
      stream->busy.store(true, std::memory_order_release);
      g_busy.fetch_add(1);
    }
  }
  if (start) std::thread(work, stream).detach();
  return CUDA_SUCCESS;
}

void synchronize(CUstream stream) {
  if (is_idle(stream)) return;
  if (is_async()) return asynchronous::wait_for(stream);
  const values::WithoutGil without_gil;  // until the lock is given back
  std::unique_lock lock(stream->mutex);
  stream->idle.wait(lock, [&] { return is_idle(stream); });
}

void synchronize_context(CUcontext context) {
  if (is_async()) return asynchronous::wait_for(context);
  if (g_busy.load(std::memory_order_acquire) == 0) return;
  std::vector<CUstream> all;
  handles<CUstream_st>().for_each([&](CUstream s) {
    if (!context || s->context == context) all.push_back(s);
  });
  for (CUstream s : all) synchronize(s);
}

void finish_work() {
  if (is_async() || g_met) synchronize_context(nullptr);
}

void complete_event(CUevent event, uint64_t turn) {
  std::lock_guard lock(event->mutex);
  event->seconds = now();
  if (event->completed < turn) event->completed = turn;
  event->reached.notify_all();
}

void wait_event(CUevent event, uint64_t turn) {
  if (event->completed.load(std::memory_order_acquire) >= turn) return;
  if (is_async()) return asynchronous::wait_for(event);
  std::unique_lock lock(event->mutex);
  event->reached.wait(lock, [&] { return event->completed >= turn; });
}

bool outlives_destruction(CUevent event) {
  if (is_async()) return asynchronous::outlives_destruction(event);
  std::lock_guard lock(event->mutex);
  event->destroyed = event->queued > 0;
  return event->destroyed;
}

CUresult record_event(CUevent event, CUstream stream, bool external) {
  if (event->context->device != stream->context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (capturing(stream) && !external) return capture_record(event, stream);
  Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  operation.event = event;
  if (!capturing(stream)) {
    event->capture = nullptr;
    operation.event_turn = event->recorded.fetch_add(1) + 1;
  }
  return submit(stream, std::move(operation));
}

CUresult stream_wait_event(CUstream stream, CUevent event, bool external) {
  if (event->capture && !external) return capture_wait(stream, event);
  if (capturing(stream) && !external) return capture_isolation(stream);
  Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  operation.event = event;
  operation.event_turn = event->recorded;
  return submit(stream, std::move(operation));
}

}  // namespace devtrace::simulate

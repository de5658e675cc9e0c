// With --async: streams run behind the host. What is enqueued waits in its stream, and is done where somebody waits for
// it, or where the schedule says. After each call on a stream so much of it is done that no more waits than a number.
// This the seed, the stream and the call's number decide. So a run repeats as far as its threads enqueue in the same
// order.
#pragma once

#include <cstdint>
#include <memory>

#include "simulate/model/asynchronous/effect.h"
#include "simulate/model/stream.h"
#include "simulate/settings/settings.h"

namespace devtrace::simulate {

inline bool is_async() {
  static const bool on = settings().async.has_value();
  return on;
}

namespace asynchronous {

// Behind what the stream has; behind what the default stream's order and an event ask for, too.
CUresult enqueue(CUstream stream, Operation operation);

// Until what was enqueued by now is done. The calling thread does it, unless another one is about it.
void wait_for(CUstream stream);
void wait_for(CUevent event);
void wait_for(CUcontext context);  // all its streams
void wait_for_all();

// Somebody asks whether it is done, and it is not: the schedule goes on, so that it will be.
void asked(CUstream stream);
void asked(CUevent event);

// Its stream is gone.
void forget(CUstream stream);
// True: recordings of it are enqueued still, and it is deleted after the last one.
bool outlives_destruction(CUevent event);

// An operator's effect belongs behind what the stream has; it had another place before, if any.
void place(const std::shared_ptr<Effect>& effect, CUstream stream);
// Its place is final: compute(data) is called there. False: it is too late for that, or there was no one place.
bool fill(const std::shared_ptr<Effect>& effect, void (*compute)(void*), void (*drop)(void*), void* data);
// The context of the work that the calling thread does just now; null: none.
CUcontext working_for();

}  // namespace asynchronous

}  // namespace devtrace::simulate

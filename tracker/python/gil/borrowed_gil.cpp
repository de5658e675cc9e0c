#include "tracker/python/gil/borrowed_gil.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>

#include "tracker/base/thread_state.h"
#include "tracker/python/gil/kept_references.h"

namespace devtrace::python {
namespace {

constexpr size_t kStack = 2u << 20;                    // of which PyTorch's thread-local variables take their part
constexpr long kPatience = 1000, kAfterAFailure = 50;  // milliseconds
constexpr int kMostRounds = 60;
constinit std::atomic<bool> failed{false};
constinit std::atomic<uint64_t> served{0};  // how often somebody had the GIL for work

enum Stage { kWaiting, kWorking, kAbandoned };

// What the two threads share; the last of them frees it.
struct Request {
  const Api* api;
  const std::function<void()>* work;  // the caller's: only between kWorking and `done`
  std::atomic<int> stage{kWaiting};
  std::atomic<int> users{2};
  sem_t begun, done;

  void leave() {
    if (users.fetch_sub(1) == 1) delete this;
  }
};

[[gnu::noinline]] void work(Request* request) noexcept {
  const ReentrancyGuard inside;
  int waiting = kWaiting;
  if (request->stage.compare_exchange_strong(waiting, kWorking)) {
    served.fetch_add(1);
    ::sem_post(&request->begun);
    (*request->work)();
    ::sem_post(&request->done);
  }
  request->leave();
}

// Python ends a thread that waits for the GIL when it finalizes, by unwinding its stack. There is nothing to clean up
// in this frame, and nothing that would stop it. The request is lost then.
void* take_gil(void* argument) {
  auto* const request = static_cast<Request*>(argument);
  const Api* const api = request->api;
  const int state = api->PyGILState_Ensure();
  {
    KeptReferences kept;
    kept.use(*api);
    work(request);
  }
  api->PyGILState_Release(state);
  return nullptr;
}

// The program's handlers do not run on a thread that it does not know.
bool start_thread(Request* request, pthread_t& thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = ::pthread_create(&thread, &attributes, take_gil, request) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  return started;
}

timespec in(long milliseconds) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000;
  until.tv_nsec += milliseconds % 1000 * 1'000'000;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  return until;
}

bool wait_for(sem_t& semaphore, long milliseconds) {
  const timespec until = in(milliseconds);
  while (::sem_timedwait(&semaphore, &until) != 0)
    if (errno != EINTR) return false;
  return true;
}

void wait_for(sem_t& semaphore) {
  while (::sem_wait(&semaphore) != 0) {
  }
}

bool joins(pthread_t thread, long milliseconds) {
  const timespec until = in(milliseconds);
  return ::pthread_timedjoin_np(thread, nullptr, &until) == 0;
}

// Where many threads are refused at once each waits for the others: only a GIL that nobody of them gets is given up.
bool begins(Request& request) {
  for (int round = 0; round < kMostRounds; ++round) {
    const uint64_t before = served.load();
    if (wait_for(request.begun, failed.load() ? kAfterAFailure : kPatience)) return true;
    if (served.load() == before) return false;
  }
  return false;
}

}  // namespace

bool with_gil(const Api& api, const std::function<void()>& work) {
  if (holds_gil(api)) {
    served.fetch_add(1);
    work();
    return true;
  }
  auto* const request = new (std::nothrow) Request{&api, &work, kWaiting, 2, {}, {}};
  if (!request) return false;
  ::sem_init(&request->begun, 0, 0);
  ::sem_init(&request->done, 0, 0);
  pthread_t thread;
  if (!start_thread(request, thread)) {
    delete request;
    return false;
  }
  const bool begun = begins(*request);
  int waiting = kWaiting;
  const bool worked = begun || !request->stage.compare_exchange_strong(waiting, kAbandoned);
  if (worked) wait_for(request->done);
  // The program sees no thread that it did not start, once its operation has returned. But who still waits for the GIL
  // may never get it, and a `__del__` of the program's that runs on the thread may wait for the caller.
  if (!worked || !joins(thread, kPatience)) ::pthread_detach(thread);
  failed.store(!worked);
  request->leave();
  return worked;
}

}  // namespace devtrace::python

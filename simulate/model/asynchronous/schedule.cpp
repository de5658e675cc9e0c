#include "simulate/model/asynchronous/schedule.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/model/device.h"
#include "simulate/model/kernels/module.h"
#include "simulate/model/memory/memory.h"
#include "simulate/values/values.h"
#include "simulate/values/without_gil.h"

namespace devtrace::simulate::asynchronous {
namespace {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

// After this long a host function runs, whoever waits for it or not: the program may wait for what it does.
constexpr auto kHostFunctionsWait = std::chrono::milliseconds(50);
// After this long without any call everything is done: the program may look at memory that it shares with a device.
constexpr auto kQuiet = std::chrono::seconds(2);
// How much may wait in a stream, each as likely. The last is about what fits in hardware's queue.
constexpr size_t kLags[] = {0, 1, 2, 4, 16, 64, 1000, 1000};
constexpr uint64_t kCallsOfOneLag = 16;
// The clock by which torch.cuda._sleep's kernel counts, and the longest that it takes.
constexpr double kCyclesPerSecond = 1e9;
constexpr auto kLongestSpin = std::chrono::seconds(2);

// The `number`th piece of work of a stream.
struct Place {
  unsigned long long stream = 0;
  uint64_t number = 0;
};

struct Queued {
  Operation operation = {};
  std::vector<Place> behind = {};  // besides what its own stream has
  std::shared_ptr<Effect> effect = {};
  Clock::time_point since = Clock::now();
  Clock::duration spins = {};
};

// What a stream has yet to do.
struct Line {
  CUstream stream = nullptr;
  std::deque<Queued> queue;
  uint64_t enqueued = 0, done = 0, questions = 0;
  std::thread::id worker;  // who does it just now
  bool helped = false;     // a thread of our own does it
};

struct Recordings {
  Place last;
  int enqueued = 0;
  bool destroyed = false;
};

struct Schedule {
  std::mutex mutex;  // never held while work is done
  std::condition_variable changed;
  std::map<unsigned long long, Line> lines;  // by the stream's number
  std::unordered_map<CUevent, Recordings> events;
  Clock::time_point last_call = Clock::now();
  int calls = 0;  // that are under way
  bool helper = false, ended = false;
};
Schedule& schedule() {
  static auto* one = new Schedule;
  return *one;
}

thread_local CUcontext t_working_for = nullptr;

// For each of the functions that the program calls.
class Call {
 public:
  explicit Call(Lock& lock) : lock_(lock) { ++schedule().calls; }
  ~Call() {
    if (!lock_) lock_.lock();
    --schedule().calls;
    schedule().last_call = Clock::now();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  Lock& lock_;
};

uint64_t mixed(uint64_t n) {  // splitmix64's
  n += 0x9e3779b97f4a7c15u;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
  return n ^ (n >> 31);
}

uint64_t drawn(const Line& line, uint64_t number) {
  return mixed(*settings().async ^ mixed(line.stream->id ^ mixed(number)));
}

size_t lag(const Line& line) {
  return kLags[drawn(line, line.enqueued / kCallsOfOneLag) % std::size(kLags)];
}

Line* line_of(unsigned long long stream) {
  const auto at = schedule().lines.find(stream);
  return at == schedule().lines.end() ? nullptr : &at->second;
}

Line& line_of(CUstream stream) {
  Line& line = schedule().lines[stream->id];
  line.stream = stream;
  return line;
}

bool is_done(const Place& place) {
  const Line* line = line_of(place.stream);
  return !line || line->done >= place.number;
}

bool is_mine(const Line& line) {
  return line.worker == std::this_thread::get_id();
}

// torch.cuda._sleep's kernel, by which programs say that a stream has a lot to do, takes its time: its argument is a
// number of cycles. All other work takes none.
Clock::duration spins(const Operation& operation) {
  if (operation.type != CU_GRAPH_NODE_TYPE_KERNEL || !operation.kernel.func) return {};
  const Function* f = function_of(operation.kernel.func);
  int64_t cycles = 0;
  if (!f || f->name.find("spin_kernel") == std::string::npos || operation.arguments.values.size() < sizeof cycles)
    return {};
  std::memcpy(&cycles, operation.arguments.values.data(), sizeof cycles);
  const std::chrono::duration<double> seconds(static_cast<double>(cycles) / kCyclesPerSecond);
  return std::min<Clock::duration>(std::chrono::duration_cast<Clock::duration>(seconds), kLongestSpin);
}

// What only those do who wait for it.
bool holds_up(const Queued& work) {
  return work.operation.type == CU_GRAPH_NODE_TYPE_HOST || Clock::now() < work.since + work.spins;
}

void sleep(Lock& lock) {
  {
    const values::WithoutGil without_gil;
    schedule().changed.wait(lock);
    lock.unlock();
  }
  lock.lock();
}

void perform(Queued& work) {
  Operation& operation = work.operation;
  std::optional<values::WithoutGil> without_gil;
  if (operation.ready) without_gil.emplace();  // others may be threads of this process
  t_working_for = operation.context;
  if (work.effect) {
    if (work.effect->compute) work.effect->compute(work.effect->data);
  } else if (CUresult e = execute(operation)) {
    if (operation.context) operation.context->sticky = e;
  }
  if (work.spins.count()) std::this_thread::sleep_until(work.since + work.spins);
  t_working_for = nullptr;
}

// Under the lock: after a recording that was enqueued.
void recorded(CUevent event) {
  const auto at = schedule().events.find(event);
  if (at == schedule().events.end() || --at->second.enqueued > 0 || !at->second.destroyed) return;
  schedule().events.erase(at);
  delete event;
}

void wait(Lock& lock, const Place& place);
enum class By { kSchedule, kWaiting };
bool step(Lock& lock, Line& line, By by);

bool is_ready(Lock& lock, const std::vector<Place>& behind, By by) {
  for (const Place& place : behind) {
    if (by == By::kWaiting) wait(lock, place);
    while (by == By::kSchedule && !is_done(place))
      if (!step(lock, *line_of(place.stream), by)) return false;
  }
  return true;
}

// Whether what the stream has come to has to wait for other processes still. Another stream of this one may have what
// those wait for in their turn.
bool waits_for_others(Lock& lock, Line& line, By by) {
  const Queued& work = line.queue.front();
  if (!work.operation.ready || !simulate::waits_for_others(work.operation)) return false;
  if (by == By::kSchedule) return true;
  std::vector<unsigned long long> others;
  for (const auto& [id, other] : schedule().lines) others.push_back(id);
  for (const unsigned long long id : others)
    while (Line* const other = line_of(id))
      if (!step(lock, *other, By::kSchedule)) break;
  return false;
}

// The first thing that the stream has to do. False: there is none, another thread is about it, or it has to wait.
bool step(Lock& lock, Line& line, By by) {
  if (line.queue.empty() || line.worker != std::thread::id()) return false;
  if (by == By::kSchedule && holds_up(line.queue.front())) return false;
  if (const Effect* effect = line.queue.front().effect.get())
    if (effect->open && (by == By::kSchedule || effect->owner != std::this_thread::get_id())) return false;
  line.worker = std::this_thread::get_id();
  const std::vector<Place> behind = std::exchange(line.queue.front().behind, {});
  const bool ready = is_ready(lock, behind, by) && !waits_for_others(lock, line, by);
  if (ready) {
    {
      Queued work = std::move(line.queue.front());
      line.queue.pop_front();
      bool stands = true;
      if (Effect* effect = work.effect.get()) {
        stands = effect->stream == line.stream->id && effect->number == line.done + 1;
        if (effect->open) effect->lost |= stands;
      }
      lock.unlock();
      if (stands) perform(work);
      lock.lock();
      if (work.operation.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) recorded(work.operation.event);
      lock.unlock();
    }
    lock.lock();
    ++line.done;
  } else {
    line.queue.front().behind = behind;
  }
  line.worker = {};
  if (line.queue.empty()) line.stream->busy.store(false, std::memory_order_release);
  schedule().changed.notify_all();
  return ready;
}

void wait(Lock& lock, const Place& place) {
  while (!is_done(place)) {
    Line& line = *line_of(place.stream);
    if (is_mine(line)) return;  // asked for by that work itself
    if (!step(lock, line, By::kWaiting)) sleep(lock);
  }
}

void go_on(Lock& lock, Line& line) {
  const size_t most = lag(line);
  while (line.queue.size() > most && step(lock, line, By::kSchedule)) {
  }
}

// A thread that does what nobody waits for.
void help(unsigned long long stream) {
  Lock lock(schedule().mutex);
  if (const Line* line = line_of(stream)) wait(lock, {stream, line->enqueued});
  if (Line* line = line_of(stream)) line->helped = false;
}

bool needs_help(const Line& line, Clock::time_point now) {
  if (line.queue.empty() || line.worker != std::thread::id() || line.helped) return false;
  if (!schedule().calls && now - schedule().last_call > kQuiet) return true;
  for (const Queued& each : line.queue)
    if ((each.operation.type == CU_GRAPH_NODE_TYPE_HOST || each.operation.ready) &&
        now - each.since > kHostFunctionsWait)
      return true;
  return false;
}

void look_for_help() {
  Lock lock(schedule().mutex);
  while (!schedule().ended) {
    // By this clock, which needs nothing of a newer glibc.
    schedule().changed.wait_until(lock, std::chrono::system_clock::now() + kHostFunctionsWait);
    const Clock::time_point now = Clock::now();
    for (auto& [id, line] : schedule().lines) {
      if (schedule().ended || !needs_help(line, now)) continue;
      line.helped = true;
      std::thread(help, id).detach();
    }
  }
}

void start_helper() {
  if (std::exchange(schedule().helper, true)) return;
  std::thread(look_for_help).detach();
  std::atexit([] {
    const Lock lock(schedule().mutex);
    schedule().ended = true;
  });
}

bool is_blocking(CUstream stream) {
  return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

// The default stream's work is behind that of the blocking streams of its context, and theirs behind its.
void keep_default_order(CUstream stream, std::vector<Place>* behind) {
  if (!is_blocking(stream)) return;
  CUstream const legacy = stream->context->legacy;
  for (const auto& [id, line] : schedule().lines)
    if (line.stream != stream && line.done < line.enqueued && line.stream->context == stream->context &&
        is_blocking(line.stream) && (stream == legacy || line.stream == legacy))
      behind->push_back({id, line.enqueued});
}

uint64_t append(CUstream stream, Queued work) {
  Line& line = line_of(stream);
  stream->busy.store(true, std::memory_order_release);
  line.queue.push_back(std::move(work));
  start_helper();
  return ++line.enqueued;
}

bool is_pageable(CUmemorytype type, const void* host, CUdeviceptr address) {
  if (type == CU_MEMORYTYPE_ARRAY) return false;
  Allocation a;
  return !find_memory(type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : address, &a);
}

// Reads pageable memory now, as the driver does before the call returns. False: it lies in several rows.
bool stage(Operation* operation) {
  CUDA_MEMCPY3D& c = operation->copy;
  if (c.Height != 1 || c.Depth != 1 || c.srcY || c.srcZ) return false;
  const auto* from = c.srcMemoryType == CU_MEMORYTYPE_HOST ? static_cast<const uint8_t*>(c.srcHost)
                                                           : reinterpret_cast<const uint8_t*>(c.srcDevice);
  const auto kept = std::make_shared<std::vector<uint8_t>>(from + c.srcXInBytes, from + c.srcXInBytes + c.WidthInBytes);
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = kept->data();
  c.srcXInBytes = 0;
  operation->compute_data = kept;
  return true;
}

// Whether the call returns only when the copy is done.
bool returns_after(Operation* operation) {
  if (operation->type != CU_GRAPH_NODE_TYPE_MEMCPY) return false;
  const CUDA_MEMCPY3D& c = operation->copy;
  if (is_pageable(c.dstMemoryType, c.dstHost, c.dstDevice)) return true;
  return is_pageable(c.srcMemoryType, c.srcHost, c.srcDevice) && !stage(operation);
}

// A kernel that nobody computes is over when it is launched, so that the operators that are called next are known to
// read what it should have written.
bool is_told_of(const Operation& operation) {
  return operation.type == CU_GRAPH_NODE_TYPE_KERNEL && !operation.in_operator && !operation.compute &&
         values::has_torch() && spins(operation) == Clock::duration();
}

}  // namespace

CUresult enqueue(CUstream stream, Operation operation) {
  const bool own = operation.type == CU_GRAPH_NODE_TYPE_MEMCPY || operation.type == CU_GRAPH_NODE_TYPE_MEMSET ||
                   (operation.type == CU_GRAPH_NODE_TYPE_KERNEL && !operation.compute);
  if (operation.copies_suppressed && own) {  // what the operator does is not done here
    const CUresult result = execute(operation);
    operator_used(stream, true);
    return result;
  }
  if (operation.type == CU_GRAPH_NODE_TYPE_KERNEL) count_launch(operation);
  const bool waits = returns_after(&operation) || is_told_of(operation);
  {
    Lock lock(schedule().mutex);
    const Call call(lock);
    Queued work;
    keep_default_order(stream, &work.behind);
    if (operation.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
      const auto at = schedule().events.find(operation.event);
      if (at != schedule().events.end() && operation.event->completed < operation.event_turn)
        work.behind.push_back(at->second.last);
      operation.type = CU_GRAPH_NODE_TYPE_EMPTY;
    }
    CUevent const event = operation.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? operation.event : nullptr;
    work.spins = spins(operation);
    work.operation = std::move(operation);
    const uint64_t number = append(stream, std::move(work));
    if (event) {
      Recordings& recordings = schedule().events[event];
      recordings.last = {stream->id, number};
      ++recordings.enqueued;
    }
    go_on(lock, line_of(stream));
    // What another process may ask for has to be done without a call of this one's.
    if (waits || (event && event->flags & CU_EVENT_INTERPROCESS)) wait(lock, {stream->id, number});
  }
  operator_used(stream, false);
  return CUDA_SUCCESS;
}

void wait_for(CUstream stream) {
  Lock lock(schedule().mutex);
  const Call call(lock);
  if (const Line* line = line_of(stream->id)) wait(lock, {stream->id, line->enqueued});
}

void wait_for(CUevent event) {
  Lock lock(schedule().mutex);
  const Call call(lock);
  const auto at = schedule().events.find(event);
  if (at == schedule().events.end()) return;
  const Place last = at->second.last;
  wait(lock, last);
}

void wait_for(CUcontext context) {
  Lock lock(schedule().mutex);
  const Call call(lock);
  std::vector<Place> all;
  for (const auto& [id, line] : schedule().lines)
    if (!context || line.stream->context == context) all.push_back({id, line.enqueued});
  for (const Place& each : all) wait(lock, each);
}

void wait_for_all() {
  wait_for(CUcontext{});
}

void asked(CUstream stream) {
  Lock lock(schedule().mutex);
  const Call call(lock);
  Line* const line = line_of(stream->id);
  if (!line) return;
  const uint64_t steps = 1 + drawn(*line, ~++line->questions) % 3;
  for (uint64_t i = 0; i < steps; ++i) {
    if (!step(lock, *line, By::kSchedule)) return;
  }
}

void asked(CUevent event) {
  CUstream stream = nullptr;
  {
    const Lock lock(schedule().mutex);
    const auto at = schedule().events.find(event);
    const Line* line = at == schedule().events.end() ? nullptr : line_of(at->second.last.stream);
    if (line) stream = line->stream;
  }
  if (stream) asked(stream);
}

void forget(CUstream stream) {
  Lock lock(schedule().mutex);
  // Who helped may still be about to leave.
  while (const Line* line = line_of(stream->id)) {
    if (line->queue.empty() && line->worker == std::thread::id()) break;
    sleep(lock);
  }
  schedule().lines.erase(stream->id);
}

bool outlives_destruction(CUevent event) {
  const Lock lock(schedule().mutex);
  const auto at = schedule().events.find(event);
  if (at == schedule().events.end()) return false;
  at->second.destroyed = at->second.enqueued > 0;
  if (at->second.destroyed) return true;
  schedule().events.erase(at);
  return false;
}

void place(const std::shared_ptr<Effect>& effect, CUstream stream) {
  const Lock lock(schedule().mutex);
  if (effect->number && effect->stream != stream->id) effect->lost = true;
  const Line& line = line_of(stream);
  const bool there = effect->number == line.enqueued && effect->stream == stream->id;
  if (effect->lost || (there && line.done < line.enqueued)) return;
  Queued work;
  keep_default_order(stream, &work.behind);
  work.operation.context = stream->context;
  work.effect = effect;
  effect->stream = stream->id;
  effect->number = append(stream, std::move(work));
}

bool fill(const std::shared_ptr<Effect>& effect, void (*compute)(void*), void (*drop)(void*), void* data) {
  Lock lock(schedule().mutex);
  const Call call(lock);
  effect->open = false;
  const bool fits = compute && effect->number && !effect->lost;
  if (fits) {
    effect->compute = compute;
    effect->drop = drop;
    effect->data = data;
  }
  schedule().changed.notify_all();
  if (fits)
    if (Line* const line = line_of(effect->stream)) go_on(lock, *line);
  return fits;
}

CUcontext working_for() {
  return t_working_for;
}

}  // namespace devtrace::simulate::asynchronous

#include "simulate/cupti/buffers.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <deque>

namespace devtrace::simulate::cupti {
namespace {

constexpr size_t kMostKept = 1 << 20;
struct Record {
  size_t size;
  alignas(8) unsigned char bytes[kLargestRecord];
};

// Two short locks that a forked child can have back, whoever held them.
class Spin {
 public:
  bool try_lock() { return !flag_.exchange(true, std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) sched_yield();
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};
class Locked {
 public:
  explicit Locked(Spin& spin) : spin_(spin) { spin_.lock(); }
  ~Locked() { spin_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Spin& spin_;
};

struct Buffer {
  uint8_t* data = nullptr;
  size_t size = 0, used = 0;
  size_t most = 0, records = 0;  // most: 0 for as many as fit
};

struct State {
  Spin records_lock;
  std::deque<Record> records;
  Spin filling;  // held while the profiler's functions are called
  Buffer buffer;
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
  std::atomic<size_t> dropped{0};
};
// Made at the first use, and never destroyed: threads may still record while the process ends.
State* g_state = nullptr;
void in_child() {
  // What another thread was in the middle of is lost with it; its records are the parent's.
  auto* fresh = new State;
  fresh->request = g_state->request.load();
  fresh->complete = g_state->complete.load();
  g_state = fresh;
}
State& state() {
  static const bool made = [] {
    g_state = new State;
    pthread_atfork(nullptr, nullptr, in_child);
    return true;
  }();
  (void)made;
  return *g_state;
}

thread_local bool t_filling = false;

bool next(State& s, Record* record) {
  Locked lock(s.records_lock);
  if (s.records.empty()) return false;
  *record = s.records.front();
  s.records.pop_front();
  return true;
}

void complete(State& s) {
  const Buffer done = s.buffer;
  s.buffer = {};
  if (done.data) s.complete.load()(nullptr, 0, done.data, done.size, done.used);
}

// False: the profiler has no room for it.
bool put(State& s, const Record& r) {
  Buffer& b = s.buffer;
  if (b.data && (b.size - b.used < r.size || (b.most && b.records == b.most))) complete(s);
  if (!b.data) {
    Buffer fresh;
    s.request.load()(&fresh.data, &fresh.size, &fresh.most);
    if (!fresh.data) return false;
    b = fresh;
    if (b.size < r.size) {  // of no use for this one: goes back empty
      complete(s);
      return false;
    }
  }
  std::memcpy(b.data + b.used, r.bytes, r.size);
  b.used += r.size;
  ++b.records;
  return true;
}

}  // namespace

void keep(const void* record, size_t size) {
  State& s = state();
  Record kept;
  kept.size = size;
  std::memcpy(kept.bytes, record, size);
  Locked lock(s.records_lock);
  if (s.records.size() < kMostKept)
    s.records.push_back(kept);
  else
    ++s.dropped;
}

bool buffers_registered() {
  return state().request && state().complete;
}

void register_buffers(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  state().request = request;
  state().complete = complete;
}

void fill_buffers(bool all) {
  State& s = state();
  if (!buffers_registered() || t_filling) return;
  if (all)
    s.filling.lock();
  else if (!s.filling.try_lock())
    return;
  t_filling = true;
  for (Record r; next(s, &r);)
    if (!put(s, r)) ++s.dropped;
  if (s.buffer.data && (all || (s.buffer.most && s.buffer.records == s.buffer.most))) complete(s);
  t_filling = false;
  s.filling.unlock();
}

size_t dropped_records() {
  return state().dropped.exchange(0);
}

void forget_records() {
  Locked lock(state().records_lock);
  state().records.clear();
}

}  // namespace devtrace::simulate::cupti

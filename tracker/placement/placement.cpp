#include "tracker/placement/placement.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "report/html/html.h"
#include "tracker/base/clock.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/spinlock.h"
#include "tracker/base/thread_state.h"
#include "tracker/interface/platform.h"
#include "tracker/log/log.h"
#include "tracker/memory/live_memory.h"
#include "tracker/memory/provenance.h"
#include "tracker/placement/live_modules.h"
#include "tracker/placement/sampling.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/python/gil/kept_references.h"
#include "tracker/python/python_api.h"

namespace devtrace::placement {

namespace detail {
thread_local constinit Counts counts;
constinit std::atomic<bool> anything{false};
}  // namespace detail

namespace {

using report::Json;

// A root that the log knows.
struct Known {
  int id = 0;
  uintptr_t object = 0;  // while it lived at the last sample; 0: it is gone, and the next of its class takes its place
  std::string name;
  size_t hash = 0;  // of what was written last; 0: it was withdrawn
  int written = 0;
  double next_write = 0;
  std::string record;  // the last one, a line
  bool in_page = false;
};

// Under the lock; leaked: hooks run after static destructors.
struct State {
  std::vector<Known> roots;
  Sampling sampling;
  Sampling memory_looks{Sampling::kRehearsalShare, Sampling::kRehearsalAllowance};
  bool exit_asked = false;  // Python will call at its end
};
SpinLock lock;
State* state = nullptr;
constinit std::atomic<bool> scheduled{false};
constinit std::atomic<bool> for_memory{false};  // what is scheduled is to say what the memory is used for, no more

State& current() {
  if (!state) state = new State;
  return *state;
}

double now() {
  return std::max(0.0, process_start::now() - process_start::time());
}

double thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// --- Writing

// A cache grows with every token: its bytes count when they have doubled.
uint64_t compared_bytes(const PlacedTensor& tensor) {
  if (tensor.kind != std::string_view("cache")) return static_cast<uint64_t>(tensor.bytes);
  uint64_t bits = 0;
  for (auto rest = static_cast<uint64_t>(tensor.bytes); rest != 0; rest >>= 1) ++bits;
  return bits;
}

size_t hash_of(const PlacedRoot& root) {
  std::string text = root.variable + '\n' + std::to_string(root.left_out);
  for (const PlacedTensor& tensor : root.tensors) {
    text += '\n' + tensor.name + ' ' + tensor.kind + ' ' + tensor.device + ' ' + tensor.same_as + ' ';
    text += std::to_string(compared_bytes(tensor));
  }
  const size_t hash = std::hash<std::string>{}(text);
  return hash == 0 ? 1 : hash;
}

Json begin(const Known& known) {
  return {{"record", "placement"}, {"id", known.id}, {"time", process_start::now()}, {"root", known.name}};
}

Json record_of(const Known& known, const PlacedRoot& root, bool cut) {
  Json record = begin(known);
  if (!root.variable.empty()) record["variable"] = root.variable;
  if (root.left_out > 0) record["left_out"] = root.left_out;
  if (cut) record["cut"] = true;
  Json& entries = record["entries"] = Json::array();
  for (const PlacedTensor& tensor : root.tensors) {
    Json entry{{"name", tensor.name}, {"kind", tensor.kind}, {"device", tensor.device}, {"bytes", tensor.bytes}};
    if (!tensor.same_as.empty()) entry["same_as"] = tensor.same_as;
    entries.push_back(std::move(entry));
  }
  return record;
}

void write(Known& known, const Json& record) {
  log::write(record);
  known.record = report::json_line(record);
  known.in_page = false;
  // A model that is moved to and fro for a month must not fill the disk. The first changes are written at once, later
  // ones ever more rarely, and the last at the end.
  constexpr int kAtOnce = 8, kMostDoublings = 12;
  if (++known.written >= kAtOnce)
    known.next_write =
        now() + Sampling::kMostGap * static_cast<double>(1 << std::min(known.written - kAtOnce, kMostDoublings));
}

// The log's root that this one is: the same object; else one of its class that is gone.
Known& known_root(State& now, const PlacedRoot& root, const LiveModules& live) {
  for (Known& known : now.roots)
    if (known.object == root.object && known.name == root.name) return known;
  const auto alive = [&](const Known& known) {
    return std::any_of(live.roots.begin(), live.roots.end(), [&](const PlacedRoot& other) {
      return other.object == known.object && other.name == known.name;
    });
  };
  for (Known& known : now.roots) {
    if (known.name != root.name || alive(known)) continue;
    known.object = root.object;
    return known;
  }
  now.roots.push_back({static_cast<int>(now.roots.size()) + 1, root.object, root.name, 0, 0, 0, {}, false});
  return now.roots.back();
}

// What was taken for a model of its own when the whole was not yet put together.
void withdraw(State& now, const LiveModules& live) {
  for (const LiveModules::Part& part : live.parts)
    for (Known& known : now.roots) {
      if (known.object != part.object || known.name != part.name || known.hash == 0) continue;
      Json record = begin(known);
      const auto whole = std::find_if(live.roots.begin(), live.roots.end(),
                                      [&](const PlacedRoot& root) { return root.object == part.root; });
      record["part_of"] = whole == live.roots.end() ? "" : whole->name;
      record["entries"] = Json::array();
      write(known, record);
      known.hash = 0;
      known.object = 0;
    }
}

void write(const LiveModules& live, bool at_end) {
  const std::lock_guard hold(lock);
  State& all = current();
  withdraw(all, live);
  for (const PlacedRoot& root : live.roots) {
    Known& known = known_root(all, root, live);
    const size_t hash = hash_of(root);
    if (hash == known.hash || (!at_end && now() < known.next_write)) continue;
    write(known, record_of(known, root, live.cut));
    known.hash = hash;
  }
}

std::vector<uintptr_t> known_objects() {
  const std::lock_guard hold(lock);
  std::vector<uintptr_t> objects;
  for (const Known& known : current().roots)
    if (known.object != 0 && known.hash != 0) objects.push_back(known.object);
  return objects;
}

// --- Sampling

enum class When { between_instructions, memory_has_grown, python_exit, process_exit };
void sample_and_keep_errno(When when) noexcept;

PyObject* at_python_exit(PyObject*, PyObject*) {
  if (log::is_open() && options().placement) sample_and_keep_errno(When::python_exit);
  const python::Api* api = python::api();
  return api ? api->PyUnicode_FromString("") : nullptr;  // anything but nullptr will do
}

// Models that are global variables are still there then; later they are not.
void ask_for_exit(const python::Api& api) {
  static constinit python::PyMethodDef definition{"devtrace_placement", at_python_exit, python::METH_NOARGS, nullptr};
  {
    const std::lock_guard hold(lock);
    if (std::exchange(current().exit_asked, true)) return;
  }
  const python::Ref function(api, api.PyCFunction_NewEx(&definition, nullptr, nullptr));
  const python::Ref atexit = python::imported_module(api, "atexit");
  if (function) python::call_with(api, python::attribute(api, atexit.get(), "register").get(), function.get());
}

void took(double began, bool memory = false) {
  const std::lock_guard hold(lock);
  (memory ? current().memory_looks : current().sampling).took(now(), thread_time() - began);
}

void sample(When when, python::KeptReferences& kept) {
  const python::Api* api = python::api();
  if (!api || !log::is_open() || !python::holds_gil(*api)) return;
  const bool memory = when == When::memory_has_grown;
  if (!memory && !detail::anything.exchange(false, std::memory_order_relaxed)) return;
  const double began = thread_time();
  LiveModules live;
  bool known = false;
  if (python::extra_header(*api)) {
    kept.use(*api);
    const python::Gil gil(*api);
    if (const evidence::Torch torch(*api); torch.usable()) {
      live = live_modules(*api, torch, known_objects());
      ask_for_exit(*api);
      known = true;
    }
  }
  for (const UsedTensor& each : live.used)
    if (each.storage != 0) memory::provenance::is_used(each.storage, each.use);
  if (known) {
    memory::live_memory::note_looked();
    if (!memory) write(live, when != When::between_instructions);
  }
  took(began, memory);
}

void sample_and_keep_errno(When when) noexcept {
  const int saved = errno;
  {
    python::KeptReferences kept;
    const ReentrancyGuard inside;
    try {
      sample(when, kept);
    } catch (...) {  // out of memory: the next one may do
    }
    if (when == When::process_exit) kept.leak();  // from a signal's handler, too: no place for `__del__`
  }
  errno = saved;
}

// Runs in the main thread, with the GIL, between two instructions of whatever Python code comes first: a rehearsal's
// own, too. Anything but 0 would become an exception in the user's code.
int pending_call(void*) noexcept {
  sample_and_keep_errno(for_memory.load() ? When::memory_has_grown : When::between_instructions);
  scheduled.store(false, std::memory_order_release);
  return 0;
}

// False, too, when somebody else is at it. A rehearsal looks besides whenever a device has taken more than before: who
// asks where a model fits wants to know what takes the memory.
bool due(bool much, bool more_memory) {
  if (!lock.try_lock()) return false;
  const std::lock_guard hold(lock, std::adopt_lock);
  const bool usual = current().sampling.due(now(), much);
  const bool besides = platform().simulated() && current().memory_looks.due(now(), more_memory);
  for_memory.store(besides && !usual);
  return usual || besides;
}

void ask_for_sample() {
  const double began = thread_time();
  const python::Api* api = python::api();
  if (!api) {  // a program without Python is not searched for one again and again
    for (const bool memory : {false, true}) took(began, memory);
    return;
  }
  if (scheduled.exchange(true, std::memory_order_acq_rel)) return;
  const bool queue_is_full = api->Py_AddPendingCall(pending_call, nullptr) != 0;
  if (queue_is_full) scheduled.store(false, std::memory_order_release);
}

[[gnu::noinline]] void consider(bool much, bool more_memory = false) noexcept {
  if (!log::is_open() || !options().placement || scheduled.load(std::memory_order_relaxed)) return;
  const ReentrancyGuard inside;
  const int saved = errno;
  try {
    if (due(much, more_memory)) ask_for_sample();
  } catch (...) {  // out of memory
  }
  errno = saved;
}

}  // namespace

bool detail::consider_launch() {
  const uint64_t count = counts.next - counts.left;
  bool much = false;
  if (counts.left == 0) {
    const uint64_t step = std::min(count, kLookEvery);
    counts.next = count + step;
    counts.left = static_cast<uint32_t>(step);
    much = std::has_single_bit(count) && std::countr_zero(count) % 2 == 0;  // a power of four
  }
  const bool more_memory = memory::live_memory::look_is_due.load(std::memory_order_relaxed);
  if (more_memory) memory::live_memory::look_is_due.store(false, std::memory_order_relaxed);  // it is owed then
  consider(much, more_memory);
  return true;
}

void copied() {
  detail::note_something();
  if (++detail::counts.copies % detail::kLookEvery == 0) consider(false);
}

void look_now() {
  const python::Api* const api = log::is_open() && options().placement ? python::api() : nullptr;
  if (!api) return;
  detail::note_something();
  if (api->free_threaded) return ask_for_sample();  // the main thread, for KeptReferences
  python::with_gil(*api, [] { sample_and_keep_errno(When::between_instructions); });
}

void look_last() {
  if (log::is_open() && options().placement) sample_and_keep_errno(When::process_exit);
}

void write_rest() {
  const std::lock_guard hold(lock);
  if (!state || !log::has_html()) return;
  for (Known& known : state->roots) {
    if (known.record.empty() || known.in_page) continue;
    log::write_html(report::html_placement(Json::parse(known.record, nullptr, false)));
    known.in_page = true;
  }
}

void before_fork() {
  lock.lock();
}

void after_fork(bool child) {
  if (child) {
    state = nullptr;  // leaked: the parent's models are written to the parent's log
    scheduled.store(false, std::memory_order_relaxed);
    detail::counts = {};
  }
  lock.unlock();
}

}  // namespace devtrace::placement

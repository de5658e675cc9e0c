#include "tracker/copy/traffic.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/format.h"
#include "finding/json.h"
#include "report/html/html.h"
#include "tracker/base/clock.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/run_isolated.h"
#include "tracker/base/spinlock.h"
#include "tracker/base/thread_state.h"
#include "tracker/copy/copy_times.h"
#include "tracker/copy/sharded_counters.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/log/log.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/peer_access.h"
#include "tracker/memory/provenance.h"
#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::copy::traffic {
namespace {

using memory::CopyEnd;
using memory::Declared;
using report::Json;

// Who copied, and between which devices, in the 64 bits of a counter's key. `place` is the id of the Python stack, or,
// where there is none, the native address that called CUDA; 0: all places for which the counters had no room.
struct Site {
  Device from, to;
  bool staged;  // between devices of which neither was allowed to reach the other
  bool native;
  uint64_t place;

  // Of a key with a Python stack, whose id leaves room for it: these copies came after a module was first called. Both
  // keys are one site.
  static constexpr uint64_t kLater = uint64_t{1} << 63;

  // In the place of a device: those of other ranks, which may be on other machines.
  static constexpr Device kRanks = Device::cuda(0x7F - 1);

  static uint64_t device_bits(Device device) { return static_cast<uint64_t>(device.index + 1) & 0x7F; }
  static Device device_of(uint64_t bits) { return {static_cast<int8_t>(static_cast<int>(bits & 0x7F) - 1)}; }

  uint64_t packed() const {
    return place << 16 | uint64_t{native} << 15 | uint64_t{staged} << 14 | device_bits(to) << 7 | device_bits(from);
  }
  static Site of(uint64_t key) {
    return {device_of(key), device_of(key >> 7), (key >> 14 & 1) != 0, (key >> 15 & 1) != 0, key >> 16};
  }
  bool is_python() const { return place != 0 && !native; }
  static uint64_t now(uint64_t key) {
    return of(key).is_python() && memory::provenance::module_was_called() ? key | kLater : key;
  }
  static uint64_t whenever(uint64_t key) { return of(key).is_python() ? key & ~kLater : key; }
  Site without_place() const { return {from, to, staged, false, 0}; }
};

constinit ShardedCounters counters;
constinit std::atomic<bool> any{false};
constexpr unsigned kNoShard = ~0u;
thread_local constinit unsigned shard = kNoShard;

// When a place copied first, and which thread: milliseconds since the epoch and the kernel's thread id in one word.
struct First {
  static constexpr unsigned kThreadBits = 22;  // the kernel's PID_MAX_LIMIT
  static uint64_t now() {
    return now_coarse() / 1'000'000 << kThreadBits | (thread_state::id() & ((1u << kThreadBits) - 1));
  }
  static Json json(uint64_t word) {
    return {{"time", static_cast<double>(word >> kThreadBits) * 1e-3}, {"thread", word & ((1u << kThreadBits) - 1)}};
  }
};

struct Total {
  uint64_t bytes = 0;
  uint64_t copies = 0;
  uint64_t first = 0;  // a First; 0: not known yet
  bool later = false;  // some of the copies came after a module was first called
};

// What the log knows already. Under the lock; leaked: hooks run after static destructors.
struct Written {
  int id = 0;
  uint64_t bytes = 0;
  uint64_t timed = 0;  // copies
  bool before_forward = false;
};
SpinLock lock;
std::unordered_map<uint64_t, Written>* written = nullptr;

// Memory that the table of chunks does not know is the host's, unless the caller says that it is a device's: then it is
// managed, or was there before us.
Device device_of(const CopyEnd& end) {
  if (end.likely.known()) return end.likely;
  if (end.declared == Declared::this_device) return end.declared_device;
  if (end.declared == Declared::host) return Device::cpu();
  return end.address != 0 && end.declared == Declared::nothing ? Device::cpu() : Device{};
}

// A place looks at the clock at its first copy, and at every so manieth.
constexpr uint64_t kClockEvery = 16;

// To the kernel's tick.
int64_t seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec;
}

// True for one thread each time the interval has passed.
constinit std::atomic<int64_t> next_write{0};
bool due() {
  const int interval = options().traffic_interval;
  if (interval == 0) return false;
  const int64_t now = seconds();
  int64_t next = next_write.load(std::memory_order_relaxed);
  // A shorter interval than before holds at once: somebody looks on from now.
  if (now < next && next <= now + interval) return false;
  return next_write.compare_exchange_strong(next, now + interval, std::memory_order_relaxed) && next != 0;
}

std::vector<std::pair<uint64_t, Total>> totals() {
  std::unordered_map<uint64_t, Total> sums;
  counters.for_each([&](uint64_t key, uint64_t bytes, uint64_t copies, uint64_t first) {
    Total& sum = sums[Site::whenever(key)];
    sum.later = sum.later || key != Site::whenever(key);
    if (first != 0) sum.first = sum.first == 0 ? first : std::min(sum.first, first);
    sum.bytes += bytes;
    sum.copies += copies;
  });
  std::vector<std::pair<uint64_t, Total>> list(sums.begin(), sums.end());
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return list;
}

// By sites, as above.
std::unordered_map<uint64_t, copy::copy_times::Total> times_of_sites() {
  std::unordered_map<uint64_t, copy::copy_times::Total> sums;
  for (const auto& [key, time] : copy::copy_times::totals()) {
    copy::copy_times::Total& sum = sums[Site::whenever(key)];
    sum.copies += time.copies, sum.bytes += time.bytes, sum.nanoseconds += time.nanoseconds;
  }
  return sums;
}

// What was made ready before the program began to work. Where no module is ever called nobody knows when that was.
bool before_forward(const Site& site, const Total& total) {
  return site.is_python() && !total.later && memory::provenance::module_was_called();
}

// Names of all native places at once: each look-up alone would read the same symbol tables again.
std::unordered_map<uint64_t, std::vector<stacks::NativeFrame>> native_names(
    const std::vector<std::pair<uint64_t, Total>>& list) {
  std::vector<void*> addresses;
  for (const auto& [key, total] : list)
    if (const Site site = Site::of(key); site.native) addresses.push_back(reinterpret_cast<void*>(site.place));
  std::unordered_map<uint64_t, std::vector<stacks::NativeFrame>> names;
  if (addresses.empty() || !options().native) return names;
  // Of several functions at one address, inlined ones, the innermost comes first.
  for (stacks::NativeFrame& frame : stacks::symbolize(addresses.data(), addresses.size(), true))
    names[frame.address + 1].push_back(std::move(frame));
  return names;
}

Json record_of(const Site& site, const Total& total, int id, const evidence::SourceText& source,
               const std::unordered_map<uint64_t, std::vector<stacks::NativeFrame>>& names,
               const copy::copy_times::Total& timed) {
  Json record{{"record", "traffic"},
              {"id", id},
              {"from", site.from == Site::kRanks ? "ranks" : site.from.name()},
              {"to", site.to.name()},
              {"bytes", total.bytes},
              {"copies", total.copies}};
  // Permission from before devtrace was attached was not seen.
  if (site.from.is_cuda() && site.from != Site::kRanks && site.to.is_cuda() &&
      !(site.staged && process_start::attached() > 0))
    record["staged"] = site.staged;
  if (timed.copies > 0)
    record["timed"] = {{"copies", timed.copies}, {"bytes", timed.bytes}, {"nanoseconds", timed.nanoseconds}};
  if (total.first != 0) record["first"] = First::json(total.first);
  if (before_forward(site, total)) record["before_forward"] = true;
  if (site.place == 0) {
    record["other"] = true;
  } else if (site.native) {
    if (const auto name = names.find(site.place); name != names.end())
      record["native"] = finding::to_json(evidence::native_stack(name->second, source));
  } else {
    record["python"] =
        finding::to_json(evidence::python_stack(stacks::resolve(static_cast<stacks::StackId>(site.place)), source));
  }
  return record;
}

// A log that is written to every minute for a month must stay small: a site comes again once it has grown by a quarter,
// and at the end. Who asks for a shorter interval than this, in seconds, is looking on.
constexpr int kLookingOn = 5;
bool has_changed(const Site& site, const Total& total, const copy::copy_times::Total& timed, const Written& known,
                 bool at_end) {
  if (before_forward(site, total) != known.before_forward) return true;
  return at_end || options().traffic_interval < kLookingOn ? total.bytes != known.bytes || timed.copies != known.timed
                                                           : total.bytes - known.bytes > known.bytes / 4;
}

// The process's log, and its page, are written by one thread at a time: what a site's last record says is the most.
void write(bool at_end) {
  if (!any.load(std::memory_order_relaxed) || !log::is_open()) return;
  if (!written) written = new std::unordered_map<uint64_t, Written>;
  auto list = totals();
  auto times = times_of_sites();
  std::erase_if(list, [&](const auto& entry) {
    const auto known = written->find(entry.first);
    return known != written->end() &&
           !has_changed(Site::of(entry.first), entry.second, times[entry.first], known->second, at_end) &&
           !(at_end && log::has_html());
  });
  const evidence::SourceText source = evidence::source_from_disk();
  const auto names = native_names(list);
  for (const auto& [key, total] : list) {
    const auto [entry, fresh] = written->try_emplace(key, Written{static_cast<int>(written->size()) + 1, 0, 0, false});
    Written& known = entry->second;
    const bool before = before_forward(Site::of(key), total);
    const Json record = record_of(Site::of(key), total, known.id, source, names, times[key]);
    if (known.bytes != total.bytes || known.timed != times[key].copies || known.before_forward != before)
      log::write(record);
    if (log::has_html()) log::write_html(report::html_traffic(log::process(), record));
    known = {known.id, total.bytes, times[key].copies, before};
  }
}

// A copy's hook is a place where a finding may be written, so this may be, too. It happens once a minute.
[[gnu::noinline]] void write_what_has_grown() noexcept {
  run_isolated(Stack::ours, [] {
    if (!lock.try_lock()) return;
    const std::lock_guard hold(lock, std::adopt_lock);
    write(false);
  });
}

}  // namespace

namespace {

uint64_t with_place(Site site, stacks::OnePythonStack& stack) {
  site.place = stack.id();
  if (site.place == 0) {
    site.place = stacks::caller::address();
    site.native = site.place != 0;
  }
  return site.packed();
}

uint64_t site_of(const memory::CopyEnds& ends, stacks::OnePythonStack& stack) {
  const Device to = device_of(ends.to);
  const Device from = device_of(ends.from);
  if (to == from || !to.known() || !from.known()) return 0;
  const bool staged = from.is_cuda() && to.is_cuda() && !memory::peer_access::allowed(from, to) &&
                      !memory::peer_access::allowed(to, from);
  return with_place({from, to, staged, false, 0}, stack);
}

// Changes the key to that of all places for which there is no room, if need be.
bool add_to(uint64_t& key, uint64_t bytes, uint64_t copies) {
  if (shard == kNoShard) shard = counters.shard_for_new_thread();
  if (!any.load(std::memory_order_relaxed)) any.store(true, std::memory_order_relaxed);
  key = Site::now(key);
  uint64_t before = counters.add(shard, key, bytes, copies);
  if (before == ShardedCounters::kFull)
    before = counters.add(shard, key = Site::of(key).without_place().packed(), bytes, copies);
  // Even a clock's tick costs as much as half a stack.
  if (before % kClockEvery != 0 && before / kClockEvery == (before + copies) / kClockEvery) return false;
  if (before == 0) counters.mark(shard, key, First::now());
  return true;
}

}  // namespace

uint64_t site_of(const events::Copy& copy, stacks::OnePythonStack& stack) {
  return copy.bytes == 0 ? 0 : site_of(memory::ends_of(copy), stack);
}

uint64_t site_from_ranks(Device to, stacks::OnePythonStack& stack) {
  return with_place({Site::kRanks, to, false, false, 0}, stack);
}

bool add(uint64_t site, uint64_t bytes, uint64_t copies) {
  return add_to(site, bytes, copies);
}

void write_if_due() {
  if (due()) write_what_has_grown();
}

void count(const events::Copy& copy, const memory::CopyEnds& ends, stacks::OnePythonStack& stack) {
  uint64_t key = site_of(ends, stack);
  if (key == 0) {
    if (copy.several && copy.correlation_id != 0) copy::copy_times::expect_one_of_several(copy.correlation_id, 0);
    return;
  }
  const bool look_at_clock = add_to(key, copy.bytes, 1);
  if (copy.correlation_id != 0)
    (copy.several ? copy::copy_times::expect_one_of_several : copy::copy_times::expect)(copy.correlation_id, key);
  if (look_at_clock) write_if_due();
}

void count_from_ranks(Device to, uint64_t bytes, stacks::OnePythonStack& stack) {
  if (bytes == 0) return;
  uint64_t key = site_from_ranks(to, stack);
  if (add_to(key, bytes, 1)) write_if_due();
}

void write_rest() {
  const std::lock_guard hold(lock);
  write(true);
}

void before_fork() {
  lock.lock();
}

void after_fork(bool child) {
  if (child && any.load(std::memory_order_relaxed)) {
    counters.clear();  // the parent's copies are the parent's
    copy::copy_times::clear();
    written = nullptr;
    next_write.store(0, std::memory_order_relaxed);
    any.store(false, std::memory_order_relaxed);
  }
  lock.unlock();
}

}  // namespace devtrace::copy::traffic

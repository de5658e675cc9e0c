#include "tracker/findings/occurrences.h"

#include <utility>

#include "tracker/base/assert.h"

namespace devtrace::findings {
namespace {

constexpr int kMostLookedAt = 100;       // after the limit
constexpr size_t kMostCalls = 1u << 16;  // that are remembered

// What was a note once is a fault when the program takes its permission back.
std::string named(const std::string& fingerprint, Severity severity) {
  if (severity == Severity::fault) return fingerprint;
  return fingerprint + (severity == Severity::note ? " note" : " suppressed");
}

template <class Known>
Occurrences::Count as_written(Known& known) {
  known.written = known.count;
  return {known.id, known.fingerprint, known.count};
}

}  // namespace

void Totals::add(Severity severity) {
  all_.fetch_add(1, std::memory_order_relaxed);
  if (severity == Severity::note) notes_.fetch_add(1, std::memory_order_relaxed);
  if (severity == Severity::suppressed) suppressed_.fetch_add(1, std::memory_order_relaxed);
}

void Totals::forget() {
  for (auto* each : {&all_, &notes_, &suppressed_}) each->store(0, std::memory_order_relaxed);
}

// Past the limit only so many calls more are looked at, to tell notes from faults; then they are counted as what there
// was before.
bool Occurrences::counted_unseen() {
  if (!full()) return false;
  if (looked_at_in_vain_ < kMostLookedAt) return ++looked_at_in_vain_, false;
  totals_.add(totals_.faults() > 0 ? Severity::fault : Severity::note);
  ++dropped_;
  return true;
}

void Occurrences::count_again(Known& known) {
  ++known.count;
  DEVTRACE_ASSERT(known.written < known.count);
  if (known.count >= known.written * 2) due_.push_back(as_written(known));
}

Occurrences::Seen Occurrences::seen(uint64_t key) {
  const auto found = by_call_.find(key);
  if (key == 0 || found == by_call_.end()) return counted_unseen() ? Seen::counted : Seen::never;
  const ByCall& call = found->second;
  if (call.excused) return Seen::excused;
  totals_.add(call.severity);
  if (call.finding)
    count_again(*call.finding);
  else
    ++dropped_;
  return Seen::counted;
}

// Code that is made anew for each call gives a new key each time: then all are forgotten now and then.
void Occurrences::remember(uint64_t key, ByCall call) {
  if (key == 0) return;
  if (by_call_.size() >= kMostCalls) by_call_.clear();
  by_call_.emplace(key, call);
}

void Occurrences::excuse(uint64_t key) {
  remember(key, {.excused = true});
}

Occurrences::Finding Occurrences::add(uint64_t key, const std::string& fingerprint, Severity severity) {
  totals_.add(severity);
  const std::string name = named(fingerprint, severity);
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) {
    remember(key, {&known->second, severity});
    count_again(known->second);
    return {Finding::repeated, known->second.id};
  }
  if (full()) {
    ++dropped_;
    if (limits_.deduplicate) remember(key, {nullptr, severity});
    return {Finding::dropped, 0};
  }
  ++written_;
  if (limits_.deduplicate) {
    remember(key, {&by_name_.emplace(name, Known{written_, fingerprint}).first->second, severity});
  }
  return {Finding::added, written_};
}

std::vector<Occurrences::Count> Occurrences::take_due() {
  return std::exchange(due_, {});
}

std::vector<Occurrences::Count> Occurrences::take_unwritten() {
  std::vector<Count> counts;
  for (auto& [name, known] : by_name_)
    if (known.count != known.written) counts.push_back(as_written(known));
  return counts;
}

uint64_t Occurrences::count_of(uint64_t id) const {
  for (const auto& [name, known] : by_name_)
    if (static_cast<uint64_t>(known.id) == id) return known.count;
  return 0;
}

}  // namespace devtrace::findings

#include "tracker/ranks/watch.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tracker/base/clock.h"
#include "tracker/base/options.h"
#include "tracker/base/thread_state.h"
#include "tracker/findings/rank_findings.h"
#include "tracker/ranks/shared.h"

namespace devtrace::ranks {
namespace {

constinit std::atomic<bool> started{false};

bool is_gone(const RankMember& member) {
  return member.state.load() == RankMember::left || !is_running(member.process);
}

// All that have come to a communicator, also those that have gone since.
std::vector<RankMember*> ranks_of(RankTable& table, uint64_t communicator) {
  std::vector<RankMember*> all;
  for (RankMember& each : used_members(table)) {
    const uint32_t state = each.state.load();
    if ((state == RankMember::ready || state == RankMember::left) && each.communicator == communicator)
      all.push_back(&each);
  }
  std::ranges::sort(all, {}, &RankMember::rank);
  return all;
}

// For how long a rank has had that call, in nanoseconds; 0 where it has not, or is not there to wait.
uint64_t waited(const RankMember& member, uint64_t number) {
  if (member.state.load() != RankMember::ready || !call_of(member, number)) return 0;
  const uint64_t now = now_exact(), since = member.call(number).time.load();
  return now > since ? now - since : 0;
}

// The call that a rank waits in for longer than `least`, as another one has not come to it. 0: none.
uint64_t waits_in(RankTable& table, const RankMember& member, uint64_t least) {
  uint64_t first = UINT64_MAX;
  for (const RankMember* each : ranks_of(table, member.communicator)) first = std::min(first, each->calls.load() + 1);
  return first <= member.calls.load() && waited(member, first) > least ? first : 0;
}

// Another communicator's collective, in which the process of this rank waits itself.
bool waits_elsewhere(RankTable& table, const RankMember& member, uint64_t least, findings::Part& part) {
  for (const RankMember& each : used_members(table)) {
    if (!is_of(each, each.communicator) || each.process.pid != member.process.pid ||
        each.communicator == member.communicator)
      continue;
    const uint64_t number = waits_in(table, each, least);
    const auto call = number ? call_of(each, number) : std::nullopt;
    if (!call) continue;
    part = {&member, *call, each.call(number).place.load()};
    return true;
  }
  return false;
}

// Of the ranks one tells: the first that is missing, as it knows where it is; where that cannot, one that waits.
bool tells(const RankMember& own, const RankMember& missing, uint64_t longest, uint64_t least) {
  if (missing.process.pid == own.process.pid) return true;
  return is_gone(missing) || longest > 2 * least;
}

// Ranks of other machines are in no table of this one.
bool is_of_several_machines() {
  const char *const world = std::getenv("WORLD_SIZE"), *const local = std::getenv("LOCAL_WORLD_SIZE");
  return world && local && std::strcmp(world, local) != 0;
}

// Of ranks that wait for others to come to the communicator the first tells, once.
void look_at_joining(RankTable& table, const RankMember& own, uint64_t least) {
  const uint64_t since = own.waiting.load(), now = now_exact();
  std::vector<RankMember*> all = ranks_of(table, own.communicator);
  std::erase_if(all, [](const RankMember* each) { return is_gone(*each); });  // one that was refused does not come
  if (all.empty() || is_of_several_machines() || now < since + least || all.front() != &own ||
      all.size() >= static_cast<size_t>(own.size))
    return;
  uint64_t told = 0;
  if (!all.front()->stalled.compare_exchange_strong(told, 1)) return;
  findings::report(findings::RanksAbsent{table, all, own});
}

void look_at(RankTable& table, const RankMember& own, uint64_t least) {
  const std::vector<RankMember*> all = ranks_of(table, own.communicator);
  uint64_t number = UINT64_MAX;
  for (const RankMember* each : all) number = std::min(number, each->calls.load() + 1);
  findings::CollectiveStalled stalled{table, {}, {}, own, number, false};
  uint64_t longest = 0;
  for (const RankMember* each : all) {
    if (each->calls.load() < number) {
      findings::CollectiveStalled::Missing missing{each, is_gone(*each), false, {}};
      missing.waits = !missing.gone && waits_elsewhere(table, *each, least, missing.elsewhere);
      stalled.is_certain = stalled.is_certain || missing.gone || missing.waits;
      stalled.missing.push_back(missing);
    } else if (const uint64_t time = waited(*each, number); time > least) {
      longest = std::max(longest, time);
      stalled.waiting.push_back({each, *call_of(*each, number), each->call(number).place.load()});
    }
  }
  if (stalled.missing.empty() || stalled.waiting.empty()) return;
  // Whoever waits after a mismatch waits for what that finding says already.
  if (any_told(all)) return;
  if (!tells(own, *stalled.missing.front().rank, longest, least)) return;
  uint64_t told = all.front()->stalled.load();
  if (told >= number || !all.front()->stalled.compare_exchange_strong(told, number)) return;
  findings::report(stalled);
}

void look(RankTable& table, uint64_t least) {
  const pid_t own = ::getpid();
  for (RankMember& each : used_members(table))
    if (each.state.load() == RankMember::ready && each.process.pid == own)
      each.waiting.load() ? look_at_joining(table, each, least) : look_at(table, each, least);
}

void* run(void*) {
  const auto seconds = static_cast<uint64_t>(options().collective_wait);
  // An eighth of the time, a quarter of a second at least.
  const uint64_t nap = std::max<uint64_t>(seconds * 125'000'000, 250'000'000);
  for (;;) {
    const timespec time = {static_cast<time_t>(nap / 1'000'000'000), static_cast<long>(nap % 1'000'000'000)};
    ::nanosleep(&time, nullptr);
    if (thread_state::inside()) continue;  // detached
    try {
      if (RankTable* const shared = table()) look(*shared, seconds * 1'000'000'000);
    } catch (...) {  // out of memory
    }
  }
}

}  // namespace

void watch() {
  if (options().collective_wait <= 0 || started.exchange(true)) return;
  // The program's handlers do not run on a thread that it does not know.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, run, nullptr) == 0) ::pthread_detach(thread);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void forget_watch_in_child() {
  started.store(false);
}

}  // namespace devtrace::ranks

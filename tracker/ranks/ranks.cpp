#include "tracker/ranks/ranks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tracker/base/clock.h"
#include "tracker/findings/rank_findings.h"
#include "tracker/python/python_api.h"
#include "tracker/ranks/shared.h"
#include "tracker/ranks/watch.h"

namespace devtrace::ranks {
namespace {

// This process's communicators: a rank of one each.
struct Own {
  std::atomic<const void*> handle{nullptr};
  std::atomic<RankMember*> member{nullptr};
  // The others on this machine, as far as they have come. One that goes may be another communicator's later.
  static constexpr size_t kMost = 64;
  std::atomic<RankMember*> others[kMost]{};
  std::atomic<uint64_t> splits{0};
  std::atomic<uint32_t> found{0}, looked{0};  // how many these are, and how far the table was looked through
};
constexpr size_t kMost = 256;
constinit Own own[kMost];

// Those ranks of its communicator that came with the device of this one.
std::vector<const RankMember*> on_device_of(RankTable& table, const RankMember& member) {
  std::vector<const RankMember*> all;
  for (const RankMember& each : used_members(table))
    if (is_of(each, member.communicator) && each.device >= 0 && std::strcmp(each.uuid, member.uuid) == 0)
      all.push_back(&each);
  return all;
}

// One of the ranks tells for all, and once.
bool is_teller(std::vector<const RankMember*>& all) {
  std::ranges::sort(all, {}, &RankMember::rank);
  if (any_told(all)) return false;
  return const_cast<RankMember*>(all.front())->told.exchange(1) == 0;
}

// Of a rank whose others no table tells of: another one may have been refused, and this one with it.
bool is_one_of_two(const RankMember& member, events::Twice twice) {
  const bool on_own = member.local_rank < 0 || member.local_rank == member.device;
  return twice == events::Twice::this_rank || (twice == events::Twice::some_rank && !on_own);
}

void report_if_shared(RankTable& table, const RankMember& member, const char* function, events::Twice twice) {
  std::vector<const RankMember*> all = on_device_of(table, member);
  if ((all.size() < 2 && !is_one_of_two(member, twice)) || !is_teller(all)) return;
  findings::report(findings::SharedDevice{table, all, member, function});
}

bool knows(const Own& rank, const RankMember& other) {
  const size_t found = std::min<size_t>(rank.found.load(), Own::kMost);
  return std::any_of(rank.others, rank.others + found, [&](const auto& each) { return each.load() == &other; });
}

// Others may come at any time: only what was handed out since is looked at, and who was being written then. Of a full
// table all is, as its places are given out again.
void find_others(RankTable& table, Own& rank, const RankMember& member) {
  if (rank.found.load() + 1 >= static_cast<uint32_t>(member.size)) return;
  const std::span<RankMember> all = used_members(table);
  size_t next = all.size() == RankTable::kMembers ? 0 : all.size();
  for (size_t i = rank.looked.load(); i < all.size(); ++i) {
    if (all[i].state.load() == RankMember::taken) next = std::min(next, i);
    if (&all[i] == &member || !is_of(all[i], member.communicator) || knows(rank, all[i])) continue;
    if (const uint32_t at = rank.found.fetch_add(1); at < Own::kMost) rank.others[at].store(&all[i]);
  }
  rank.looked.store(static_cast<uint32_t>(next));
}

// In Python programs PyTorch's own threads have no line: to name their native stacks would cost who has no finding.
uint32_t place_here(RankTable& table) {
  return place_of(table, python::api() ? stacks::capture_python() : stacks::capture());
}

void write_call(RankMember& member, uint64_t number, const Collective& call, uint32_t place) {
  RankCall& entry = member.last[number % RankMember::kCalls];
  entry.number.store(0);
  entry.kind.store(static_cast<uint32_t>(call.kind));
  entry.count.store(call.count);
  entry.type.store(call.type);
  entry.op.store(call.op);
  entry.root.store(call.root);
  entry.digest.store(call.digest);
  entry.place.store(place);
  entry.time.store(now_exact());
  entry.number.store(number);
}

void report_mismatch(RankTable& table, const Own& rank, const RankMember& member, uint64_t number,
                     const char* function) {
  std::vector<const RankMember*> all = {&member};
  for (size_t i = 0; i < std::min<size_t>(rank.found.load(), Own::kMost); ++i)
    if (const RankMember* const other = rank.others[i].load(); other && is_of(*other, member.communicator))
      all.push_back(other);
  if (!is_teller(all)) return;
  std::vector<findings::Part> parts;
  for (const RankMember* each : all)
    if (const auto call = call_of(*each, number)) parts.push_back({each, *call, each->call(number).place.load()});
  findings::report(findings::CollectiveMismatch{table, parts, member, number, function});
}

// Each of two ranks writes before it looks: one of them sees the other.
void compare(RankTable& table, Own& rank, const RankMember& member, uint64_t number, const Collective& call,
             const char* function) {
  for (size_t i = 0; i < std::min<size_t>(rank.found.load(), Own::kMost); ++i) {
    const RankMember* const other = rank.others[i].load();
    if (!other || !is_of(*other, member.communicator)) continue;
    const auto theirs = call_of(*other, number);
    if (theirs && !agree(call, *theirs)) return report_mismatch(table, rank, member, number, function);
  }
}

}  // namespace

void joins(const events::Rank& rank) noexcept {
  RankTable* const shared = table();
  RankMember* const member = shared ? enter(*shared, rank) : nullptr;
  if (!member || rank.size < 2) return;
  member->place.store(place_here(*shared));
  member->waiting.store(now_exact());
  watch();
}

void joined(const events::Rank& rank, const void* handle) noexcept {
  RankTable* const shared = table();
  if (!shared) return;
  RankMember* member = find(*shared, rank.communicator, rank.rank);
  if (!member) member = enter(*shared, rank);
  if (!member) return;
  member->waiting.store(0);
  for (Own& each : own) {
    const void* none = nullptr;
    if (each.handle.load() != nullptr || !each.handle.compare_exchange_strong(none, handle)) continue;
    each.found.store(0);
    each.looked.store(0);
    each.splits.store(0);
    each.member.store(member);
    if (rank.size > 1) watch();
    return;
  }
}

// Every rank of a communicator splits it as often as the others: so all know by which turn a new one was made.
void split(const void* parent, int color, events::Rank rank, const void* handle) noexcept {
  for (Own& each : own) {
    RankMember* const member = each.member.load();
    if (!parent || each.handle.load() != parent || !member) continue;
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15u;
    const uint64_t turn = each.splits.fetch_add(1) + 1;
    rank.communicator = ((member->communicator ^ turn) * kMix ^ static_cast<uint64_t>(color)) * kMix;
    if (handle) joined(rank, handle);
    return;
  }
}

void refused(std::span<const events::Rank> ranks, events::Twice twice) noexcept try {
  RankTable* const shared = table();
  if (!shared) return;
  std::vector<RankMember*> members;
  for (const events::Rank& rank : ranks) {
    RankMember* member = find(*shared, rank.communicator, rank.rank);
    if (!member) member = enter(*shared, rank);
    if (member) members.push_back(member);
  }
  if (!members.empty()) report_if_shared(*shared, *members.front(), ranks.front().function, twice);
} catch (...) {  // out of memory
}

void left(const void* handle) noexcept {
  for (Own& each : own) {
    if (!handle || each.handle.load() != handle) continue;
    if (RankMember* const member = each.member.load()) member->state.store(RankMember::left);
    each.handle.store(nullptr);
  }
}

void called(const char* function, const void* handle, const Collective& call) noexcept try {
  RankTable* const shared = table();
  for (Own& each : own) {
    RankMember* const member = each.member.load();
    if (!shared || each.handle.load(std::memory_order_relaxed) != handle || !member) continue;
    const uint64_t number = member->calls.fetch_add(1) + 1;
    write_call(*member, number, call, place_here(*shared));
    find_others(*shared, each, *member);
    return compare(*shared, each, *member, number, call, function);
  }
} catch (...) {  // out of memory: one report is lost, the call goes on
}

std::optional<OwnRank> of(const void* handle) noexcept {
  for (const Own& each : own) {
    const RankMember* const member = each.member.load(std::memory_order_acquire);
    if (each.handle.load(std::memory_order_relaxed) == handle && member && member->device >= 0)
      return OwnRank{member->rank, member->size, Device::cuda(member->device)};
  }
  return std::nullopt;
}

void forget_in_child() {
  for (Own& each : own) each.handle.store(nullptr);
  forget_watch_in_child();
}

}  // namespace devtrace::ranks

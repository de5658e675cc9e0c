#include "tracker/ranks/shared.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/format.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/findings/reporting.h"
#include "tracker/interface/platform.h"
#include "tracker/log/log.h"
#include "tracker/log/process_record.h"
#include "tracker/memory/device_history.h"

namespace devtrace::ranks {
namespace {

constinit std::atomic<RankTable*> used{nullptr};

RankTable* own_table() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const at = ::mmap(nullptr, sizeof(RankTable), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<RankTable*>(at);
}

template <size_t kSize>
void write(char (&out)[kSize], std::string_view text) {
  text = text.substr(0, kSize - 1);
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = 0;
}

// Of a process that has ended without leaving.
bool is_abandoned(const RankMember& member) {
  const uint32_t state = member.state.load();
  return state == RankMember::left || (state == RankMember::ready && !is_running(member.process));
}

RankMember* take(RankTable& table) {
  if (const uint32_t next = table.used.fetch_add(1); next < RankTable::kMembers) {
    table.members[next].state.store(RankMember::taken);
    return &table.members[next];
  }
  table.used.store(RankTable::kMembers);
  for (RankMember& each : table.members) {
    uint32_t state = each.state.load();
    if (is_abandoned(each) && each.state.compare_exchange_strong(state, RankMember::taken)) return &each;
  }
  return nullptr;
}

void add_log(RankTable& table) {
  const std::string path = log::path();
  if (path.empty() || !options().html) return;
  for (const RankTable::Log& each : table.log)
    if (each.ready.load() && path == each.path) return;
  const uint32_t index = table.logs.fetch_add(1);
  if (index >= RankTable::kLogs) return;
  write(table.log[index].path, path);
  table.log[index].said = options().text;
  table.log[index].ready.store(true);
}

int local_rank() {
  const char* const text = std::getenv("LOCAL_RANK");
  return text && *text ? std::atoi(text) : -1;
}

std::string uuid_of(int device) {
  for (const DeviceFacts& each : platform().devices())
    if (each.index == device) return each.uuid;
  return {};
}

// The choice of the thread's current device that still holds, and is none that the running statement makes for itself,
// as PyTorch's guards do.
void note_choice(RankTable& table, RankMember& member) {
  const stacks::StackId here = stacks::call_site_of(stacks::capture());
  auto choices = memory::device_history::kept();
  std::erase_if(choices, [&](const auto& each) { return here != 0 && stacks::call_site_of(each.stack) == here; });
  const bool holds = !choices.empty() && choices.back().device == member.device;
  member.chosen = holds ? place_of(table, choices.back().stack) : 0;
  member.by_default = choices.empty() && member.device == 0 && memory::device_history::seen_from_start();
  member.by_call = !holds && !member.by_default;
}

// PyTorch's ranks agree by keys and orders that are each version's own: others wait for ever, or read garbage. Whoever
// comes later says so; of two that come at once, one.
void warn_of_other_version(RankTable& table, RankMember& member) {
  for (RankMember& each : used_members(table)) {
    if (!is_of(each, member.communicator) || !each.torch[0] || !member.torch[0]) continue;
    if (std::strcmp(each.torch, member.torch) == 0) continue;
    if (std::min(&each, &member)->version_told.exchange(true)) return;
    const auto of = [](const RankMember& rank) {
      return fmt::format("rank {} (process {}) has PyTorch {}", rank.rank, rank.process.pid, rank.torch);
    };
    return warn(of(member) + " and " + of(each) + ": the ranks of a job need one version");
  }
}

// The innermost of the program's own frames.
bool write_place(RankPlace& out, stacks::StackId stack) {
  const evidence::SourceText source = evidence::source_from_disk();
  const bool native = stacks::is_native(stack);
  const finding::Stack frames = native ? evidence::native_stack(stacks::resolve_native(stack, true), source)
                                       : evidence::python_stack(stacks::resolve(stack), source);
  const finding::Frame* const frame = native ? finding::native_user_frame(frames) : finding::user_frame(frames);
  if (!frame) return false;
  out.project = frame->project;
  out.line = static_cast<int>(frame->line);
  write(out.file, frame->file);
  write(out.function, frame->function);
  write(out.source, frame->source);
  return true;
}

// Which place a stack's is: found again without a lock. Two threads may write one place twice.
constexpr size_t kKnown = 8192;
constinit std::atomic<uint64_t> known[kKnown]{};  // the stack, and 32 bits of place

}  // namespace

RankTable* table() {
  RankTable* now = used.load(std::memory_order_acquire);
  if (now) return now;
  const char* const ticket = std::getenv(kRankTableVariable);
  RankTable* made = ticket && *ticket ? open_rank_table(ticket) : nullptr;
  if (!made) made = own_table();
  if (!made || used.compare_exchange_strong(now, made)) return made;
  ::munmap(made, sizeof *made);
  return now;
}

std::span<RankMember> used_members(RankTable& table) {
  return {table.members, std::min(table.used.load(), RankTable::kMembers)};
}

RankMember* enter(RankTable& table, const events::Rank& rank) {
  RankMember* const member = take(table);
  if (!member) return nullptr;
  member->communicator = rank.communicator;
  member->rank = rank.rank;
  member->size = rank.size;
  member->local_rank = local_rank();
  member->device = rank.device;
  member->process = this_process();
  member->calls.store(0);
  for (RankCall& each : member->last) each.number.store(0);
  member->told.store(0);
  member->waiting.store(0);
  member->stalled.store(0);
  member->version_told.store(false);
  findings::run([&] {
    write(member->uuid, uuid_of(rank.device));
    write(member->torch, log::torch_version());
    note_choice(table, *member);
    log::open();
    add_log(table);
  });
  member->state.store(RankMember::ready);
  findings::run([&] { warn_of_other_version(table, *member); });
  return member;
}

RankMember* find(RankTable& table, uint64_t communicator, int rank) {
  for (RankMember& each : used_members(table))
    if (is_of(each, communicator) && each.rank == rank) return &each;
  return nullptr;
}

// The call of that number, while it is not overwritten.
std::optional<Collective> call_of(const RankMember& member, uint64_t number) {
  const RankCall& call = member.call(number);
  if (call.number.load() != number) return std::nullopt;
  const Collective read = {static_cast<CollectiveKind>(call.kind.load()),
                           call.count.load(),
                           call.type.load(),
                           call.op.load(),
                           call.root.load(),
                           call.digest.load()};
  return call.number.load() == number ? std::optional(read) : std::nullopt;
}

uint32_t place_of(RankTable& table, stacks::StackId stack) {
  if (stack == 0) return 0;
  const size_t begin = (stack * 0x9E3779B1u) % kKnown;
  for (size_t i = 0; i < 64; ++i) {
    std::atomic<uint64_t>& each = known[(begin + i) % kKnown];
    const uint64_t value = each.load();
    if (value >> 32 == stack) return static_cast<uint32_t>(value);
    if (value != 0) continue;
    const uint32_t index = table.places.fetch_add(1) + 1;
    if (index >= RankTable::kPlaces) return 0;
    findings::run([&] {
      if (write_place(table.place[index], stack)) table.place[index].ready.store(true);
    });
    uint64_t none = 0;
    each.compare_exchange_strong(none, uint64_t{stack} << 32 | index);
    return index;
  }
  return 0;
}

}  // namespace devtrace::ranks

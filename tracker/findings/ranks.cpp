// Ranks of one communicator that stand in each other's way.

#include <algorithm>
#include <functional>

#include "common/format.h"
#include "report/phrasing/phrasing.h"
#include "tracker/base/options.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/evidence/source/group_setup.h"
#include "tracker/findings/rank_findings.h"
#include "tracker/findings/reporting.h"
#include "tracker/interface/device.h"
#include "tracker/interface/platform.h"
#include "tracker/python/gil/borrowed_gil.h"

namespace devtrace::findings {
namespace {

using finding::Finding;

finding::Frame frame_of(const RankTable& table, uint32_t place) {
  finding::Frame frame;
  if (place == 0 || place >= RankTable::kPlaces || !table.place[place].ready.load()) return frame;
  const RankPlace& at = table.place[place];
  frame.file = at.file;
  frame.function = at.function;
  frame.source = at.source;
  frame.line = at.line;
  frame.project = at.project;
  return frame;
}

// A rank, what it does, and where.
finding::Operand rank_operand(const RankTable& table, const RankMember& rank, std::string does, uint32_t place) {
  finding::Operand operand;
  operand.name = fmt::format("rank {}", rank.rank);
  operand.role = "rank";
  operand.position = rank.rank;
  if (rank.device >= 0) operand.device = Device::cuda(rank.device).name();
  operand.created.call = std::move(does);
  if (finding::Frame frame = frame_of(table, place); frame.known()) operand.created.stack.push_back(std::move(frame));
  return operand;
}

Finding begin_of_ranks(const char* kind, const RankMember& own, const char* function) {
  finding::Ranks facts;
  facts.communicator.function = function;
  facts.communicator.size = own.size;
  facts.communicator.rank = own.rank;
  if (own.local_rank >= 0) facts.communicator.local_rank = own.local_rank;
  facts.communicator.visible = static_cast<int64_t>(platform().devices().size());
  std::vector<std::string> devices;
  if (own.device >= 0) devices.push_back(Device::cuda(own.device).name());
  Finding finding = begin(kind, std::move(facts), devices);
  finding.operation = function;
  const evidence::SourceText source = evidence::source_from_disk();
  finding.device_changes = evidence::device_changes(evidence::capture_device_changes(), source);
  finding.stack = evidence::python_stack(stacks::resolve(stacks::capture_python()), source);
  if (options().native) finding.native = evidence::native_stack(evidence::capture_native_stack().frames, source);
  return finding;
}

std::string does(const RankMember& rank) {
  return rank.by_default ? "chose no device" : rank.by_call ? "works on the device of this call" : "chose its device";
}

Finding finding_of(const SharedDevice& shared) {
  Finding finding = begin_of_ranks("duplicate-device", shared.own, shared.function);
  auto& facts = std::get<finding::Ranks>(finding.facts);
  facts.choice = evidence::device_choice(evidence::source_from_disk());
  facts.setup = evidence::group_setup(finding.stack);
  std::vector<std::string> names;
  for (const RankMember* each : shared.ranks) {
    finding.operands.push_back(rank_operand(shared.table, *each, does(*each), each->chosen));
    names.push_back(std::to_string(each->rank));
  }
  finding.message = names.size() < 2
                        ? fmt::format("rank {} of {} came with a device that another rank has: {}", names[0],
                                      shared.own.size, Device::cuda(shared.own.device).name())
                        : fmt::format("ranks {} of {} came with one device, {}: NCCL wants one for each",
                                      report::listed(names), shared.own.size, Device::cuda(shared.own.device).name());
  return finding;
}

// "AllReduce of 4 float32 (sum)", "Broadcast of 4 float32 from rank 0".
std::string words_of(const Collective& call) {
  if (call.kind == CollectiveKind::group) return fmt::format("a group of {} collectives", call.count);
  std::string out = fmt::format("{} of {} {}", name_of(call.kind), call.count,
                                call.type < std::size(kElementTypes) ? kElementTypes[call.type].name : "elements");
  if (reduces(call.kind) && call.op < kReductions.size()) out += fmt::format(" ({})", kReductions[call.op]);
  if (has_root(call.kind)) {
    const bool to = call.kind == CollectiveKind::reduce || call.kind == CollectiveKind::gather;
    out += fmt::format(" {} rank {}", to ? "to" : "from", call.root);
  }
  return out;
}

// Those that ask for the same, the larger of these groups first.
std::vector<std::vector<Part>> groups_of(const std::vector<Part>& parts) {
  std::vector<std::vector<Part>> groups;
  for (const Part& part : parts) {
    const auto same = std::ranges::find_if(groups, [&](const auto& each) { return agree(each[0].call, part.call); });
    if (same == groups.end())
      groups.push_back({part});
    else
      same->push_back(part);
  }
  std::ranges::stable_sort(groups, std::greater(), &std::vector<Part>::size);
  return groups;
}

Finding finding_of(const CollectiveMismatch& mismatch) {
  Finding finding = begin_of_ranks("collective-mismatch", mismatch.own, mismatch.function);
  auto groups = groups_of(mismatch.parts);
  const bool majority = groups.size() > 1 && groups[0].size() > groups[1].size();
  std::string asked;
  for (const auto& group : groups) {
    std::vector<std::string> ranks;
    for (const Part& part : group) ranks.push_back(std::to_string(part.rank->rank));
    asked += fmt::format("{}{} by rank{} {}", asked.empty() ? "" : ", ", words_of(group[0].call),
                         ranks.size() > 1 ? "s" : "", report::listed(ranks));
  }
  finding.message = fmt::format("ranks ask for different collectives as their number {}: {}", mismatch.number, asked);
  // One of each first: no more are shown everywhere.
  std::ranges::reverse(groups);
  for (size_t turn = 0, left = mismatch.parts.size(); left > 0; ++turn)
    for (const auto& group : groups) {
      if (turn >= group.size()) continue;
      --left;
      const Part& part = group[turn];
      finding::Operand& operand = finding.operands.emplace_back(
          rank_operand(mismatch.table, *part.rank, "calls " + words_of(part.call), part.place));
      operand.mismatched = majority && &group != &groups.back();
      if (part.call.kind == CollectiveKind::group) continue;
      if (part.call.type < std::size(kElementTypes)) operand.dtype = kElementTypes[part.call.type].name;
      operand.shape = finding::List<int64_t>::all({static_cast<int64_t>(part.call.count)});
    }
  return finding;
}

constexpr const char* kMayCome = "the missing rank may still come";

// Where the process is: the thread of its Python that was there first.
finding::Stack main_stack() {
  finding::Stack stack;
  const python::Api* const api = python::api();
  if (!api) return stack;
  python::with_gil(*api, [&] {
    try {
      const evidence::SourceReader sources(*api);
      for (const python::FrameSource& thread : python::other_threads(*api))
        if (auto found = evidence::python_stack(evidence::frames(*api, thread, 128, sources));
            finding::innermost_project(found))
          stack = std::move(found);
    } catch (...) {  // out of memory
    }
  });
  return stack;
}

std::string ranks_of(const std::vector<std::string>& ranks) {
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", report::listed(ranks));
}

std::string not_come(const std::vector<std::string>& missing, const std::string& to, const char* whose,
                     const std::vector<std::string>& waiting) {
  return fmt::format("{} {} not come to {}, {} {} {} for {} s", ranks_of(missing), missing.size() > 1 ? "have" : "has",
                     to, whose, ranks_of(waiting), waiting.size() > 1 ? "wait" : "waits", options().collective_wait);
}

Finding finding_of(const CollectiveStalled& stalled) {
  Finding finding = begin_of_ranks("collective-stalled", stalled.own, "");
  finding.operation = "nccl" + std::string(name_of(stalled.waiting.front().call.kind));
  finding.native = {};
  if (!stalled.is_certain) {
    finding.severity = "note";
    finding.note = kMayCome;
  }
  std::vector<std::string> missing, waiting;
  for (const auto& each : stalled.missing) {
    missing.push_back(std::to_string(each.rank->rank));
    const uint64_t last = each.rank->calls.load();
    const bool own = each.rank == &stalled.own;
    const std::string does = each.gone    ? "has ended; its last collective was"
                             : each.waits ? "waits in " + words_of(each.elsewhere.call) + " of another group"
                             : own        ? "has not come, and is"
                                          : "has not come; its last collective was";
    const uint32_t place = each.waits ? each.elsewhere.place : each.rank->call(last).place.load();
    finding::Operand operand = rank_operand(stalled.table, *each.rank, does, place);
    if (own && !each.waits) operand.created.stack = finding.stack = main_stack();
    operand.mismatched = true;
    finding.operands.push_back(std::move(operand));
  }
  for (const Part& each : stalled.waiting) {
    waiting.push_back(std::to_string(each.rank->rank));
    finding.operands.push_back(rank_operand(stalled.table, *each.rank, "waits in " + words_of(each.call), each.place));
  }
  if (finding.stack.empty())
    if (finding::Frame frame = frame_of(stalled.table, stalled.waiting.front().place); frame.known())
      finding.stack.push_back(std::move(frame));
  finding.message = not_come(missing, words_of(stalled.waiting.front().call), "in which", waiting);
  return finding;
}

Finding finding_of(const RanksAbsent& absent) {
  Finding finding = begin_of_ranks("collective-stalled", absent.own, "ncclCommInitRank");
  finding.severity = "note";
  finding.note = kMayCome;
  finding.native = {};
  finding.stack = main_stack();
  std::vector<std::string> missing, waiting;
  for (int rank = 0; rank < absent.own.size; ++rank) {
    const auto here = std::ranges::find(absent.waiting, rank, &RankMember::rank);
    (here == absent.waiting.end() ? missing : waiting).push_back(std::to_string(rank));
    if (here == absent.waiting.end()) continue;
    const std::string does = "waits for the others of a group of " + std::to_string(absent.own.size);
    finding.operands.push_back(rank_operand(absent.table, **here, does, (*here)->place.load()));
  }
  finding.message = not_come(missing, fmt::format("a group of {}", absent.own.size), "whose", waiting);
  return finding;
}

}  // namespace

// Once for each `call`.
template <class What>
static void report_call(const std::string& call, const What& what) {
  run([&] { report_once({call}, [&] { return std::optional(finding_of(what)); }); });
}

void report(const RanksAbsent& absent) {
  report_call(fmt::format("{}", absent.own.communicator), absent);
}

void report(const CollectiveStalled& stalled) {
  report_call(fmt::format("{} {}", stalled.own.communicator, stalled.number), stalled);
}

void report(const CollectiveMismatch& mismatch) {
  report_call(mismatch.function, mismatch);
}

void report(const SharedDevice& shared) {
  report_call(shared.function, shared);
}

}  // namespace devtrace::findings

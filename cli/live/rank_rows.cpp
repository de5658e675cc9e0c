#include "cli/live/rank_rows.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "common/format.h"

namespace devtrace::cli::live {
namespace {

using Members = std::vector<const RankMember*>;

// "dist.all_reduce(loss) (train.py:41)"; empty: not known.
std::string words_of(const RankTable& table, uint32_t index) {
  if (index == 0 || index >= RankTable::kPlaces) return {};
  const RankPlace& place = table.place[index];
  if (!place.ready) return {};
  const std::string file = place.file;
  return fmt::format("{} ({}:{})", place.source[0] ? place.source : place.function, file.substr(file.rfind('/') + 1),
                     place.line);
}

std::string last_of(const RankTable& table, const RankMember& member) {
  const uint64_t calls = member.calls;
  return calls == 0 ? std::string() : words_of(table, member.call(calls).place);
}

bool has_ended(const RankMember& member) {
  return start_of_process(member.process.pid) != member.process.started;
}

// "rank 1", "ranks 0, 2 and 3".
std::string names_of(const Members& members) {
  std::string names = members.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < members.size(); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : i + 1 == members.size() ? " and " : ", ", members[i]->rank);
  return names;
}

std::string whereabouts(const RankTable& table, const RankMember& member) {
  if (has_ended(member)) return "has ended";
  const std::string seen = words_of(table, member.whereabouts);
  const std::string last = last_of(table, member);
  return fmt::format("has not come{}{}", seen.empty() ? "" : ": it is at " + seen,
                     last.empty() ? "" : "; its last was " + last);
}

void add_rows(const RankTable& table, const Members& members, std::vector<std::string>& rows) {
  Members joining, first, behind;
  uint64_t most = 0;
  for (const RankMember* each : members) most = std::max<uint64_t>(most, each->calls);
  for (const RankMember* each : members) {
    if (each->waiting) joining.push_back(each);
    (each->calls == most ? first : behind).push_back(each);
  }
  const int size = members.front()->size;
  if (!joining.empty() && joining.size() < static_cast<size_t>(size)) {
    const std::string where = words_of(table, joining.front()->place);
    rows.push_back(fmt::format("group of {}: {} wait{} for the others to come to it{}", size, names_of(joining),
                               joining.size() == 1 ? "s" : "", where.empty() ? "" : ", in " + where));
    return;
  }
  if (behind.empty() || most == 0) return;
  const std::string in = last_of(table, *first.front());
  rows.push_back(fmt::format("group of {}: {} wait{} in {}, the collective {}", size, names_of(first),
                             first.size() == 1 ? "s" : "", in.empty() ? "a place that is not known" : in, most));
  for (const RankMember* each : behind)
    rows.push_back(fmt::format("  rank {}, process {}, {}", each->rank, each->process.pid, whereabouts(table, *each)));
}

}  // namespace

const RankTable* rank_table_of(pid_t process) {
  std::ifstream in(fmt::format("/proc/{}/environ", process), std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(in), {}};
  const std::string wanted = std::string(1, '\0') + kRankTableVariable + '=';
  const size_t at = ('\0' + environment).find(wanted);
  if (at == environment.npos) return nullptr;
  const size_t begin = at + wanted.size() - 1;
  return open_rank_table(environment.substr(begin, environment.find('\0', begin) - begin).c_str());
}

std::vector<std::string> rank_rows(const RankTable& table) {
  std::map<uint64_t, Members> communicators;
  const uint32_t used = std::min<uint32_t>(table.used, RankTable::kMembers);
  for (uint32_t i = 0; i < used; ++i) {
    const RankMember& each = table.members[i];
    const uint32_t state = each.state;
    if (state == RankMember::ready || (state == RankMember::taken && each.waiting))
      communicators[each.communicator].push_back(&each);
  }
  std::vector<std::string> rows;
  for (auto& [communicator, members] : communicators) {
    std::ranges::sort(members, {}, [](const RankMember* each) { return each->rank; });
    add_rows(table, members, rows);
  }
  return rows;
}

}  // namespace devtrace::cli::live

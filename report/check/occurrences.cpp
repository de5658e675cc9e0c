#include "report/check/occurrences.h"

#include <algorithm>
#include <map>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/phrasing.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kShown = 8;

// Which clock a process told the time by: the machine since it was started, however its containers call themselves.
std::string clock_of(const Process& process) {
  const std::string_view boot = string(process.record, "boot");
  return std::string(boot.empty() ? process.host() : boot);
}

std::string times(uint64_t count) {
  return count == 1 ? "once" : count == 2 ? "twice" : fmt::format("{} times", count);
}

}  // namespace

std::string occurrences(const Fault& fault, const Collection& logs) {
  const auto& all = fault.by_process;
  std::string names;
  for (size_t index = 0; index < std::min(all.size(), kShown); ++index)
    names += fmt::format("{}{}", index ? ", " : "", logs.processes()[all[index].process].name());
  if (all.size() > kShown) names += fmt::format(" and {} more", all.size() - kShown);
  if (all.size() == 1) return fmt::format("{}, {}", names, times(fault.occurrences()));
  return fmt::format("{} processes, {}: {}", all.size(), times(fault.occurrences()), names);
}

std::string who_was_first(const Fault& fault, const Collection& logs) {
  std::map<std::string, const Occurrences*> first;  // by clock
  const Occurrences* second = nullptr;              // of the same clock as the first of all, when there is one clock
  for (const Occurrences& each : fault.by_process) {
    if (each.time <= 0) return {};
    auto& earliest = first[clock_of(logs.processes()[each.process])];
    if (!earliest || each.time < earliest->time) {
      second = earliest;
      earliest = &each;
    } else if (!second || each.time < second->time) {
      second = &each;
    }
  }
  if (fault.by_process.size() < 2) return {};
  const auto name = [&](const Occurrences& met) { return logs.processes()[met.process].name(); };
  if (first.size() == 1) {
    const Occurrences& it = *first.begin()->second;
    return fmt::format("first in {}, {} before {}", name(it), duration(second->time - it.time), name(*second));
  }

  std::vector<const Occurrences*> order;
  order.reserve(first.size());
  for (const auto& [clock, met] : first) order.push_back(met);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->time < b->time; });
  const auto error = [&](const Occurrences& met) {
    return number(logs.processes()[met.process].record, "clock_error");
  };
  const auto own = error(*order[0]);
  const bool certain = own && std::all_of(order.begin() + 1, order.end(), [&](const Occurrences* later) {
                         const auto its = error(*later);
                         return its && *its >= 0 && *own >= 0 && later->time - order[0]->time > *own + *its;
                       });
  if (certain)
    return fmt::format("first in {}, {} before {} (the hosts' clocks agree to {})", name(*order[0]),
                       duration(order[1]->time - order[0]->time), name(*order[1]), duration(*own + *error(*order[1])));
  std::vector<std::string> names;
  for (size_t index = 0; index < std::min<size_t>(order.size(), 4); ++index) names.push_back(name(*order[index]));
  return fmt::format(
      "first on each host: {}{}; which of them was first is not known: the clocks of the {} hosts cannot be compared",
      listed(names), order.size() > 4 ? " and others" : "", order.size());
}

std::string owners(const Site& site, const Collection& logs) {
  std::vector<std::string> names;
  for (auto at = site.ranks.begin(); at != site.ranks.end();) {
    const int64_t first = *at;
    int64_t last = first;
    while (++at != site.ranks.end() && *at == last + 1) last = *at;
    if (last > first + 1) {
      names.push_back(fmt::format("{} to {}", first, last));
    } else {
      names.push_back(fmt::format("{}", first));
      if (last > first) names.push_back(fmt::format("{}", last));
    }
  }
  const bool several = site.ranks.size() > 1, more = site.ranks.size() == kMostOwners;
  if (!names.empty())
    return fmt::format(", of rank{} {}{}", several ? "s" : "", listed(names), more ? " and more" : "");
  const auto& processes = logs.processes();
  const bool elsewhere = std::any_of(processes.begin(), processes.end(),
                                     [&](const Process& each) { return each.host() != processes.front().host(); });
  if (!elsewhere || site.hosts.empty()) return {};
  return printable(fmt::format(", of {}", listed({site.hosts.begin(), site.hosts.end()})));
}

}  // namespace devtrace::report::check

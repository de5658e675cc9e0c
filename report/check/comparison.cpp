#include "report/check/comparison.h"

#include <algorithm>
#include <tuple>

#include "common/format.h"
#include "common/text.h"
#include "report/placement/placement.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kNamed = 3;  // processes of one remark

ClassifiedFault classify(const Fault& fault, const Baseline& baseline, const Suppressions& suppressions) {
  if (fault.note) return {&fault, Status::note, {}};
  if (fault.suppressed_by) {
    const Suppression& by = suppressions.entries[*fault.suppressed_by];
    return {&fault, Status::suppressed,
            fmt::format("{}{}{}:{}", by.reason, by.reason.empty() ? "" : ", ", suppressions.path, by.line)};
  }
  if (fault.suppressed)
    return {&fault, Status::suppressed,
            fmt::format("{}{}{}:{}", fault.suppressed->reason, fault.suppressed->reason.empty() ? "" : ", ",
                        fault.suppressed->file, fault.suppressed->line)};
  const auto known = baseline.findings.find(fault.fingerprint);
  if (known == baseline.findings.end()) return {&fault, Status::added, {}};
  return {&fault, Status::known, std::string(string(known->second, "note"))};
}

void compare_traffic(const Collection& logs, const Baseline& baseline, const Rules& rules, Comparison& out) {
  if (!baseline.has_traffic) {
    if (rules.traffic_tolerance)
      out.remarks.push_back("the baseline holds no traffic yet: --update-baseline takes it up");
    return;
  }
  const auto worth_telling = [](uint64_t before, uint64_t now) {
    const uint64_t difference = now > before ? now - before : before - now;
    return difference > before / 100 && difference > 0;
  };
  const auto add = [&](const std::string& site, Site before, Site now) {
    if (!worth_telling(before.bytes, now.bytes)) return;
    const bool grew = now.bytes > before.bytes && now.bytes - before.bytes >= kTrafficFloor;
    const bool fails =
        grew && rules.traffic_tolerance &&
        static_cast<double>(now.bytes) > static_cast<double>(before.bytes) * (1 + *rules.traffic_tolerance);
    out.traffic.push_back({site, before, now, fails});
  };
  std::set<std::string> seen;
  for (const auto& [site, now] : logs.traffic()) {
    const std::string name = printable(site);  // as the baseline writes it
    const auto known = baseline.traffic.find(name);
    add(name, known == baseline.traffic.end() ? Site() : known->second, now);
    seen.insert(name);
  }
  for (const auto& [site, before] : baseline.traffic)
    if (!seen.contains(site)) add(site, before, Site());
  std::stable_sort(out.traffic.begin(), out.traffic.end(), [](const auto& a, const auto& b) {
    const auto growth = [](const auto& each) {
      return static_cast<double>(each.now.bytes) - static_cast<double>(each.before.bytes);
    };
    return std::tuple(!a.fails, -growth(a)) < std::tuple(!b.fails, -growth(b));
  });
}

// What one side does not know has not moved, and is not gone.
void compare_placement(const Collection& logs, const Baseline& baseline, const Rules& rules, Comparison& out) {
  if (logs.placement().empty()) {
    if (rules.fail_on_placement)
      out.problems.push_back(
          "no log says where a model lies: there was none, or PyTorch was not used, or the logs were written with "
          "placement=0 or by an older devtrace");
    return;
  }
  if (baseline.placement.empty()) {
    if (rules.fail_on_placement)
      out.remarks.push_back("the baseline holds no placement yet: --update-baseline takes it up");
    return;
  }
  out.placement = changes(baseline.placement, logs.placement());
  out.placement_fails = rules.fail_on_placement && !out.placement.moved.empty();
  std::string numbers;
  for (const auto& [tonight, before] : out.placement.numbers)
    numbers += fmt::format("{}{} is the baseline's {}", numbers.empty() ? "" : ", ", tonight, before);
  if (!out.placement.moved.empty() && !numbers.empty())
    out.remarks.push_back(fmt::format("placements are told with the baseline's numbers: {}", numbers));
}

void look_at_processes(const Collection& logs, const Rules& rules, Comparison& out) {
  const auto unfinished = logs.unfinished();
  std::string names;
  for (size_t index = 0; index < std::min(unfinished.size(), kNamed); ++index)
    names += fmt::format("{}{} ({})", index ? ", " : "", unfinished[index]->log, unfinished[index]->name());
  if (unfinished.size() > kNamed) names += fmt::format(" and {} more", unfinished.size() - kNamed);
  if (!unfinished.empty())
    (rules.allow_unfinished ? out.remarks : out.problems)
        .push_back(fmt::format("{}: no end record: {}; what came after is not known{}", names,
                               unfinished.size() == 1
                                   ? "the process was killed, or is still running, or its log was cut off"
                                   : "the processes were killed, or are still running, or their logs were cut off",
                               rules.allow_unfinished ? "" : " (--allow-unfinished accepts that)"));
  for (const Process& each : logs.processes())
    if (each.dropped > 0)
      out.problems.push_back(
          fmt::format("{}: {} findings were not written, because of max_findings", each.log, each.dropped));
  if (logs.processes().size() < rules.expected_processes)
    out.problems.push_back(fmt::format("{} processes left a log, and {} were expected", logs.processes().size(),
                                       rules.expected_processes));
}

}  // namespace

std::string_view word(Status status) {
  switch (status) {
    case Status::added:
      return "new";
    case Status::known:
      return "known";
    case Status::suppressed:
      return "suppressed";
    case Status::note:
      return "note";
  }
  return {};
}

Comparison compare(const Collection& logs, const Baseline& baseline, const Suppressions& suppressions,
                   const std::string& today, const Rules& rules) {
  Comparison out;
  out.problems = logs.problems();
  std::set<std::string_view> seen;
  std::set<size_t> used;
  for (const Fault& fault : logs.faults()) {
    out.faults.push_back(classify(fault, baseline, suppressions));
    if (!fault.note) seen.insert(fault.fingerprint);
    if (fault.suppressed_by) used.insert(*fault.suppressed_by);
  }
  std::stable_sort(out.faults.begin(), out.faults.end(), [](const ClassifiedFault& a, const ClassifiedFault& b) {
    return std::tie(a.status, a.fault->file, a.fault->line, a.fault->fingerprint) <
           std::tie(b.status, b.fault->file, b.fault->line, b.fault->fingerprint);
  });
  for (const auto& [fingerprint, entry] : baseline.findings)
    if (!seen.contains(fingerprint)) out.gone.push_back(entry);
  for (size_t index = 0; index < suppressions.entries.size(); ++index) {
    const Suppression& entry = suppressions.entries[index];
    if (entry.expired(today))
      out.expired.push_back(&entry);
    else if (!used.contains(index))
      out.unused.push_back(&entry);
  }
  compare_traffic(logs, baseline, rules, out);
  compare_placement(logs, baseline, rules, out);
  look_at_processes(logs, rules, out);
  return out;
}

size_t Comparison::count(Status status) const {
  return static_cast<size_t>(
      std::count_if(faults.begin(), faults.end(), [&](const ClassifiedFault& each) { return each.status == status; }));
}

size_t Comparison::failing_traffic() const {
  return static_cast<size_t>(
      std::count_if(traffic.begin(), traffic.end(), [](const MoreTraffic& each) { return each.fails; }));
}

int Comparison::exit_code() const {
  if (count(Status::added) > 0 || failing_traffic() > 0 || placement_fails) return 1;
  return problems.empty() ? 0 : 2;
}

std::string Comparison::tally() const {
  std::string out = fmt::format("{} new, {} known, {} {}", count(Status::added), count(Status::known), gone.size(),
                                problems.empty() ? "gone" : "not seen");
  if (const size_t some = count(Status::suppressed)) out += fmt::format(", {} suppressed", some);
  if (const size_t some = count(Status::note)) out += fmt::format(", {} note{}", some, some == 1 ? "" : "s");
  if (const size_t some = failing_traffic())
    out += fmt::format(", more traffic at {} call site{}", some, some == 1 ? "" : "s");
  if (placement_fails) out += fmt::format(", {} moved to another device", tensors(placement.moved_tensors));
  return out;
}

}  // namespace devtrace::report::check

#include <algorithm>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "report/html/html.h"
#include "report/phrasing/phrasing.h"
#include "report/placement/placement.h"
#include "report/text/first_findings.h"
#include "report/text/markdown.h"
#include "report/text/process_facts.h"
#include "report/text/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::check {

Json merged_process(const Collection& logs) {
  if (logs.processes().empty()) return {{"record", "process"}, {"schema", 1}};
  Json process = logs.processes().front().record;
  if (logs.processes().size() > 1) process["processes"] = logs.processes().size();
  return process;
}

Json merged_finding(const ClassifiedFault& judged, const Result& result) {
  const Collection& logs = result.logs;
  const Fault& fault = *judged.fault;
  Json finding = fault.finding();
  if (result.compared) finding["status"] = word(judged.status);
  if (!judged.reason.empty()) finding["status_reason"] = judged.reason;
  finding["count"] = fault.occurrences();
  finding["seen_by"] = occurrences(fault, logs);
  if (const std::string first = who_was_first(fault, logs); !first.empty()) finding["first_seen_by"] = first;
  Json& all = finding["witnesses"] = Json::array();
  for (const Occurrences& each : fault.by_process) {
    if (all.size() == 100) break;  // a page is no table of a cluster
    const Process& process = logs.processes()[each.process];
    Json one = {{"pid", process.pid}, {"host", process.host()}, {"count", each.count}};
    if (const auto& environment = object(process.record, "environment"); environment.contains("RANK"))
      one["rank"] = environment["RANK"];
    if (each.time > 0) one["time"] = each.time;
    all.push_back(std::move(one));
  }
  return finding;
}

std::string displaced_words(const Displaced& each) {
  return fmt::format("{} {} ({})", shortened(printable(each.root), 100),
                     shortened(printable(group_words(each.names)), 200), tensors(each.tensors));
}

std::string device_words(const std::set<std::string>& devices) {
  return shortened(printable(listed({devices.begin(), devices.end()})), 200);
}

namespace {

Json moved_json(const Result& result) {
  Json all = Json::array();
  for (const Displaced& each : result.judged.placement.moved) {
    if (all.size() == 200) break;
    all.push_back(
        {{"what", displaced_words(each)}, {"before", device_words(each.before)}, {"now", device_words(each.now)}});
  }
  return all;
}

std::string left_out(const Result& result) {
  const size_t all = result.judged.faults.size();
  if (all <= kMostShown) return {};
  return fmt::format("{} more different findings are not shown, after the first {}: devtrace check --junit has all.",
                     all - kMostShown, kMostShown);
}

}  // namespace

namespace {

constexpr size_t kShownMemory = 64;  // records

// What the processes say of their devices' memory: visit(process, record).
template <class Visit>
void for_each_memory(const Collection& logs, const Visit& visit) {
  size_t shown = 0;
  for (const Process& process : logs.processes())
    for (const std::vector<Json>* all : {&process.memory.devices(), &process.memory.ends()})
      for (const Json& record : *all)
        if (++shown <= kShownMemory) visit(process, record);
}

}  // namespace

void check_html(const Result& result, const std::function<void(std::string_view)>& write) {
  const Json process = merged_process(result.logs);
  write(html_head(process));
  uint64_t findings = 0;
  size_t id = 0;  // the processes' own are given several times
  for (const ClassifiedFault& each : result.judged.faults) {
    findings += each.fault->occurrences();
    if (id == kMostShown) continue;
    const auto& by = each.fault->by_process;
    const Json& of = by.empty() ? process : result.logs.processes()[by.front().process].record;
    Json finding = merged_finding(each, result);
    finding["id"] = ++id;
    write(html_finding(of, finding));
  }
  for (const Json& gone : result.judged.gone) {
    Json finding = {{"record", "finding"}, {"id", ++id}, {"status", "gone"}, {"count", 0}};
    for (const char* key : {"kind", "fingerprint", "operation"})
      if (const auto value = string(gone, key); !value.empty()) finding[key] = value;
    finding["message"] = "gone: it is in the baseline and was not seen";
    if (const auto file = string(gone, "file"); !file.empty())
      finding["python"] = {{{"file", file}, {"function", string(gone, "function")}, {"project", true}}};
    write(html_finding(process, finding));
  }
  if (const std::string said = left_out(result); !said.empty())
    write(html_record(json_line({{"record", "left_out"}, {"says", said}})));
  if (result.compared)
    write(html_record(json_line({{"record", "check"},
                                 {"tally", result.judged.tally()},
                                 {"exit", result.judged.exit_code()},
                                 {"moved", moved_json(result)}})));
  for_each_memory(result.logs, [&](const Process& of, Json record) {
    record["process"] = of.name();
    write(html_memory(of.record, record));
  });
  if (result.logs.unfinished().empty())
    write(html_record(json_line({{"record", "end"}, {"findings", findings}, {"dropped", 0}})));
}

namespace {

// The dearest call sites of all processes together.
std::vector<std::pair<std::string, Site>> dearest(const Collection& logs) {
  std::vector<std::pair<std::string, Site>> sites(logs.traffic().begin(), logs.traffic().end());
  std::stable_sort(sites.begin(), sites.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return sites;
}

constexpr size_t kShownProcesses = 8;

// What is known of the processes as a whole, as the report of one says it.
std::string facts(const Collection& logs, std::string (*of)(const Json& process, const Json& end)) {
  std::string out;
  for (size_t index = 0; index < std::min(logs.processes().size(), kShownProcesses); ++index) {
    const Process& each = logs.processes()[index];
    const std::string text =
        of(each.record, each.ended ? Json({{"record", "end"}, {"dropped", each.dropped}}) : Json());
    if (!text.empty()) out += '\n' + text;
  }
  return out;
}

const Process& first_witness(const Fault& fault, const Collection& logs) {
  return logs.processes()[fault.by_process.front().process];
}

}  // namespace

std::string merged_text(const Result& result, bool colour) {
  const Collection& logs = result.logs;
  std::string out;
  size_t shown = 0;
  for (const ClassifiedFault& each : result.judged.faults) {
    if (++shown > kMostShown) break;
    const Fault& fault = *each.fault;
    out += text(first_witness(fault, logs).record, fault.finding(), colour, {});
    out += fmt::format("  seen by {}\n", occurrences(fault, logs));
    if (const std::string first = who_was_first(fault, logs); !first.empty()) out += fmt::format("  {}\n", first);
    out += '\n';
  }
  if (const std::string said = left_out(result); !said.empty()) out += said + "\n\n";
  const auto sites = dearest(logs);
  if (!sites.empty()) out += "Traffic between devices, of all processes:\n";
  for (size_t index = 0; index < std::min(sites.size(), kShownCallSites); ++index)
    out += fmt::format("  {:>8}  {:>12}  {}\n", size(sites[index].second.bytes), copies(sites[index].second.copies),
                       shortened(printable(sites[index].first), 160) + owners(sites[index].second, logs));
  if (sites.size() > kShownCallSites) out += fmt::format("  and {} more call sites\n", sites.size() - kShownCallSites);
  std::string memory;
  for_each_memory(logs, [&](const Process& of, const Json& record) {
    memory += fmt::format("  {:<8}  {}: {}\n", printable(shortened(string(record, "device"), 20)), of.name(),
                          memory_words(of.record, record));
  });
  if (!memory.empty()) out += "Memory of devices at the most:\n" + memory;
  out += facts(logs, process_text);
  out += fmt::format("{} different finding{} in {} logs of {} process{}\n", result.judged.faults.size(),
                     result.judged.faults.size() == 1 ? "" : "s", logs.logs(), logs.processes().size(),
                     logs.processes().size() == 1 ? "" : "es");
  return out;
}

std::string merged_markdown(const Result& result) {
  const Collection& logs = result.logs;
  std::string out;
  size_t shown = 0;
  for (const ClassifiedFault& each : result.judged.faults) {
    if (++shown > kMostShown) break;
    out += markdown(first_witness(*each.fault, logs).record, each.fault->finding());
    out += fmt::format("\nSeen by {}.\n\n", markdown_code(occurrences(*each.fault, logs)));
  }
  if (const std::string said = left_out(result); !said.empty()) out += said + "\n\n";
  const auto sites = dearest(logs);
  if (!sites.empty())
    out += "### Traffic between devices, of all processes\n\n| bytes | copies | call site |\n|---:|---:|---|\n";
  for (size_t index = 0; index < std::min(sites.size(), kShownCallSites); ++index)
    out += fmt::format("| {} | {} | {} |\n", size(sites[index].second.bytes), sites[index].second.copies,
                       markdown_cell(markdown_code(shortened(printable(sites[index].first), 160)) +
                                     owners(sites[index].second, logs)));
  std::string memory;
  for_each_memory(logs, [&](const Process& of, const Json& record) {
    memory += fmt::format("| {} | {} | {} |\n", markdown_cell(markdown_code(shortened(string(record, "device"), 20))),
                          markdown_cell(markdown_code(of.name())), markdown_cell(memory_words(of.record, record)));
  });
  if (!memory.empty()) out += "\n### Memory of devices at the most\n\n| device | process | |\n|---|---|---|\n" + memory;
  return out + facts(logs, process_markdown);
}

}  // namespace devtrace::report::check

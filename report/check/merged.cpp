#include <fmt/format.h>

#include "report/check/outputs.h"
#include "report/check/witnesses.h"

namespace devtrace::report::check {

Json merged_process(const Collection& logs) {
  if (logs.processes().empty()) return {{"record", "process"}, {"schema", 1}};
  Json process = logs.processes().front().record;
  if (logs.processes().size() > 1) process["processes"] = logs.processes().size();
  return process;
}

Json merged_finding(const Judged& judged, const Collection& logs) {
  const Fault& fault = *judged.fault;
  Json finding = fault.finding();
  finding["status"] = word(judged.status);
  if (!judged.reason.empty()) finding["status_reason"] = judged.reason;
  finding["count"] = fault.occurrences();
  finding["seen_by"] = witnesses(fault, logs);
  if (const std::string first = who_was_first(fault, logs); !first.empty()) finding["first_seen_by"] = first;
  Json& all = finding["witnesses"] = Json::array();
  for (const Witness& each : fault.witnesses) {
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

void check_html(const Result& result, const std::function<void(std::string_view)>& write) {
  const Json process = merged_process(result.logs);
  write(html_head(process));
  uint64_t findings = 0;
  for (const Judged& each : result.judged.faults) {
    findings += each.fault->occurrences();
    const auto& by = each.fault->witnesses;
    const Json& of = by.empty() ? process : result.logs.processes()[by.front().process].record;
    write(html_finding(of, merged_finding(each, result.logs)));
  }
  for (const Json& gone : result.judged.gone) {
    Json finding = {{"record", "finding"}, {"status", "gone"}, {"count", 0}};
    for (const char* key : {"kind", "fingerprint", "operation"})
      if (const auto value = string(gone, key); !value.empty()) finding[key] = value;
    finding["message"] = "gone: it is in the baseline and was not seen";
    if (const auto file = string(gone, "file"); !file.empty())
      finding["python"] = {{{"file", file}, {"function", string(gone, "function")}, {"project", true}}};
    write(html_finding(process, finding));
  }
  write(html_record(
      json_line({{"record", "check"}, {"tally", result.judged.tally()}, {"exit", result.judged.exit_code()}})));
  if (result.logs.unfinished().empty())
    write(html_record(json_line({{"record", "end"}, {"findings", findings}, {"dropped", 0}})));
}

}  // namespace devtrace::report::check

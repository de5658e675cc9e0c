#include "cli/fix/log.h"

#include <chrono>

#include "cli/output.h"
#include "common/format.h"
#include "finding/json.h"
#include "report/html/html.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"
#include "report/text/text.h"

namespace devtrace::cli {
namespace {

using report::Json;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json tried_record(const fix::Tried& each) {
  Json out = {{"kind", each.candidate.kind}, {"title", each.candidate.title},
              {"file", each.candidate.file}, {"line", each.candidate.line},
              {"code", each.candidate.code}, {"outcome", word(each.judgement.result)},
              {"why", each.judgement.why},   {"seconds", each.outcome.seconds},
              {"bytes", each.outcome.bytes}, {"launches", each.outcome.launches}};
  if (each.moves_work) out["moves_work"] = true;
  return out;
}

Json fix_record(const fix::Round& round) {
  Json record = {{"record", "fix"}, {"fingerprint", round.finding.finding.fingerprint}, {"tried", Json::array()}};
  for (const fix::Tried& each : round.tried) record["tried"].push_back(tried_record(each));
  if (round.chosen) record["chosen"] = *round.chosen;
  return record;
}

}  // namespace

void write_fix_log(const fix::SearchResult& result, const fix::Conclusion& conclusion, const std::string& log) {
  std::vector<Json> all{Json::parse(result.before.findings.front().process, nullptr, false)};
  const auto pid = report::integer(all.front(), "pid").value_or(0);
  for (const finding::Finding& each : conclusion.findings) all.push_back(finding::to_json(each));
  for (const auto* rounds : {&result.rounds, &result.given_up})
    for (const fix::Round& round : *rounds) all.push_back(fix_record(round));
  all.push_back({{"record", "end"},
                 {"time", now()},
                 {"findings", conclusion.findings.size()},
                 {"dropped", 0},
                 {"exit", result.after.code}});
  std::string lines;
  for (Json& record : all) {
    record["pid"] = pid;
    lines += report::json_line(record);
  }
  write_file(log, lines);
}

void show_fix_log(const std::string& log, const std::string& page, bool text) {
  Json process;
  std::string html, said;
  report::read_log(log, [&](Json&& record) {
    const auto kind = report::string(record, "record");
    if (kind == "process") {
      html += report::html_head(process = record);
    } else if (kind == "finding") {
      html += report::html_finding(process, record);
      if (text) said += report::text(process, record, to_terminal()) + '\n';
    } else {
      html += report::html_record(report::json_line(record));
    }
  });
  write_file(page, html);
  fmt::print("{}", said);
}

}  // namespace devtrace::cli

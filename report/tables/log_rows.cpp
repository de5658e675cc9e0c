#include "report/tables/log_rows.h"

#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/log/fnv1a.h"
#include "report/log/suppressions.h"
#include "report/record/finding_line.h"
#include "report/record/json_access.h"
#include "report/record/raw_fields.h"
#include "report/tables/completed.h"
#include "report/tables/row.h"

namespace devtrace::report::tables {
namespace {

constexpr size_t kLongestFirstLine = 1u << 20;

// What holds for a process from its record to its end, or to the next record of its pid.
struct ProcessRows {
  Json raw;                                       // as the log has it: what is derived for a finding is found on that
  Json process, end;                              // as the rows show them
  std::array<std::string, kTables.size()> facts;  // the fields of every row that come from `process`
  struct FindingRow {
    std::string fields;
    int64_t count = 1;
  };
  std::map<int64_t, FindingRow> findings;     // by id, as `count` and `traffic` records have it
  std::map<int64_t, std::string> traffic;     // the last of an id holds
  std::map<std::string, std::string> memory;  // the last of a device holds
  std::vector<std::string> out_of_memory;
};

std::string_view first_set(const RawFields& environment, std::string_view names) {
  for (;;) {
    const size_t bar = names.find('|');
    if (const auto raw = environment[names.substr(0, bar)]; !raw.empty()) return raw;
    if (bar == names.npos) return {};
    names.remove_prefix(bar + 1);
  }
}

class LogReader {
 public:
  LogReader(const LogIdentity& log, Redactor* redactor) : log_(log), redactor_(redactor) {}

  // False: the line has to be parsed.
  bool line(std::string_view line) {
    constexpr std::string_view kBegin = R"({"record":")";
    if (!line.starts_with(kBegin)) return false;
    const std::string_view kind = line.substr(kBegin.size(), line.find('"', kBegin.size()) - kBegin.size());
    if (kind == "process" || kind == "end") return false;
    if (kind == "count" || kind == "traffic" || kind == "memory" || kind == "out_of_memory" || kind == "finding") {
      if (redactor_ && kind != "count") return false;
      if (!fields_.cut(line) || !current()) return false;
      if (kind == "finding" && (fields_["fingerprint"].size() != 18 || fields_["cause"].size() <= 2)) return false;
      take(kind);
    }
    return true;
  }

  void record(Json&& record) {
    const auto kind = std::string(string(record, "record"));
    if (kind == "process") return begin(std::move(record));
    ProcessRows* const of = process_of(integer(record, "pid"));
    if (!of) return;
    if (kind == "end") {
      of->end = redactor_ ? redactor_->record(record) : std::move(record);
      return;
    }
    const bool suppressed = record.contains("suppressed");
    if (kind == "finding") record = completed(of->raw, std::move(record));
    if (redactor_) record = redactor_->record(record);
    if (suppressed) record["suppressed"] = Json::object();  // that it is may be known, by which entry not
    const std::string text = json_line(record);
    if (fields_.cut(text)) take(kind);
  }

  LogRows finish() {
    for (const auto& [pid, of] : processes_) flush(*of);
    if (log_.outgrown > 0) {
      Row row;
      row.add("log", log_fact("id"), "string");
      row.add("log_bytes", std::to_string(log_.outgrown), "int");
      write(Table::outgrown, row.fields());
    }
    processes_.clear();
    return std::move(rows_);
  }

 private:
  std::string& rows(Table table) { return rows_.text[static_cast<size_t>(table)]; }
  ProcessRows* current() const { return latest_; }
  ProcessRows* process_of(std::optional<int64_t> pid) const {
    const auto found = pid ? processes_.find(*pid) : processes_.end();
    return found == processes_.end() ? latest_ : found->second.get();
  }
  std::optional<int64_t> whole_number(std::string_view key) const {
    int64_t value = 0;
    const std::string_view raw = fields_[key];
    const auto [end, fault] = std::from_chars(raw.data(), raw.data() + raw.size(), value);
    return fault == std::errc() && end == raw.data() + raw.size() ? std::optional(value) : std::nullopt;
  }

  void begin(Json&& record) {
    const int64_t pid = integer(record, "pid").value_or(0);
    auto& place = processes_[pid];
    if (place) {  // another program in the same process: what is not said anew holds, the ids begin again
      flush(*place);
      Json before = std::move(place->raw);
      before.update(record);
      record = std::move(before);
    }
    place = std::make_unique<ProcessRows>();
    latest_ = place.get();
    place->raw = std::move(record);
    place->process = redactor_ ? redactor_->process(place->raw) : place->raw;
    const std::string line = json_line(place->process);
    RawFields process, environment;
    process.cut(line);
    environment.cut(process["environment"]);
    for (const Table table : kTables) {
      Row row;
      for (const Column& column : columns_of(table)) {
        if (column.from == From::log) row.add(column.name, log_fact(column.path), column.type);
        if (column.from == From::process) row.add(column.name, raw_at(process, column.path), column.type);
        if (column.from == From::environment) row.add(column.name, first_set(environment, column.path), column.type);
      }
      place->facts[static_cast<size_t>(table)] = row.fields();
    }
  }

  std::string log_fact(std::string_view what) const {
    if (what == "bytes") return std::to_string(log_.bytes);
    if (what == "path" && redactor_) return {};
    return Json(what == "id" ? log_.id : log_.path.string()).dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // Of the record in fields_.
  std::string row_of(Table table, const ProcessRows& of) {
    Row row;
    row.add_made(of.facts[static_cast<size_t>(table)]);
    std::string made;
    const RawFields frame = frame_of(fields_, made);
    for (const Column& column : columns_of(table)) {
      if (column.from == From::record) row.add(column.name, raw_at(fields_, column.path), column.type);
      if (column.from == From::place) row.add(column.name, frame[column.path], column.type);
      if (column.from == From::present)
        row.add(column.name, fields_[column.path].empty() ? "false" : "true", "boolean");
    }
    return valid_utf8(row.fields());
  }

  void take(std::string_view kind) {
    ProcessRows& of = *process_of(whole_number("pid"));
    const int64_t id = whole_number("id").value_or(--nameless_);
    if (kind == "finding") {
      of.findings[id] = {row_of(Table::findings, of), whole_number("count").value_or(1)};
    } else if (kind == "count") {
      if (const auto found = of.findings.find(id); found != of.findings.end())
        found->second.count = std::max(found->second.count, whole_number("count").value_or(1));
    } else if (kind == "traffic") {
      of.traffic[id] = row_of(Table::traffic, of);
    } else if (kind == "memory") {
      of.memory[std::string(fields_["device"])] = row_of(Table::memory, of);
    } else if (kind == "out_of_memory") {
      of.out_of_memory.push_back(row_of(Table::memory, of));
    }
  }

  void write(Table table, std::string_view fields) {
    std::string& text = rows(table);
    text += '{';
    text += fields;
    text += "}\n";
  }

  void flush(const ProcessRows& of) {
    for (const auto& [id, finding] : of.findings)
      write(Table::findings, fmt::format("{},\"count\":{}", finding.fields, finding.count));
    for (const auto& [id, fields] : of.traffic) write(Table::traffic, fields);
    for (const auto& [device, fields] : of.memory) write(Table::memory, fields);
    for (const std::string& fields : of.out_of_memory) write(Table::memory, fields);
    Row row;
    row.add_made(of.facts[static_cast<size_t>(Table::processes)]);
    const std::string line = json_line(of.end.is_object() ? of.end : Json::object());
    RawFields end;
    end.cut(line);
    for (const Column& column : columns_of(Table::processes))
      if (column.from == From::end) row.add(column.name, end[column.path], column.type);
    const auto started = report::number(of.process, "started"), ended = report::number(of.end, "time");
    if (started && ended) row.add("seconds", Json(*ended - *started).dump(), "number");
    write(Table::processes, valid_utf8(row.fields()));
  }

  const LogIdentity& log_;
  Redactor* redactor_;
  LogRows rows_;
  std::map<int64_t, std::unique_ptr<ProcessRows>> processes_;
  ProcessRows* latest_ = nullptr;
  RawFields fields_;      // of the line at hand
  int64_t nameless_ = 0;  // records without an id are each one of its own
};

}  // namespace

LogIdentity identify(const std::filesystem::path& log, bool redact) {
  std::ifstream in = open_file(log);
  std::string line;
  char block[4096];
  for (size_t end = line.npos; end == line.npos && line.size() < kLongestFirstLine;) {
    in.read(block, sizeof block);
    const std::string_view read(block, static_cast<size_t>(in.gcount()));
    if (read.empty()) break;
    end = read.find('\n');
    line += read.substr(0, end);
  }
  RawFields fields;
  fields.cut(line);
  LogIdentity found;
  found.path = log;
  found.id = Fnv1a().add(line).digits();
  std::error_code error;
  found.bytes = std::filesystem::file_size(log, error);
  double started = 0;
  const std::string_view raw = fields["started"];
  std::from_chars(raw.data(), raw.data() + raw.size(), started);
  found.date = started > 0 ? date_of(started) : "";
  if (found.date.empty()) found.date = "1970-01-01";
  const auto text = [&](const char* key) {
    const Json value = Json::parse(fields[key], nullptr, false);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  found.host = text("host");
  if (redact) {
    // The kernel draws the number by lot at each start: nobody can try names until one gives these digits.
    const std::string boot = text("boot");
    found.host = boot.empty() ? "machine" : "machine-" + Fnv1a().add(boot).digits().substr(0, 8);
  }
  if (found.host.empty()) found.host = "unknown";
  return found;
}

LogRows rows_of(const LogIdentity& log, Redactor* redactor, std::vector<std::string>& warnings) {
  LogReader reader(log, redactor);
  const LogReading reading = read_log(
      log.path, [&](Json&& record) { reader.record(std::move(record)); }, {},
      [&](std::string_view line) { return reader.line(line); });
  warnings.insert(warnings.end(), reading.warnings.begin(), reading.warnings.end());
  return reader.finish();
}

}  // namespace devtrace::report::tables

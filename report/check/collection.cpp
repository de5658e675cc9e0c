#include "report/check/collection.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>
#include <utility>

#include "common/format.h"
#include "common/text.h"
#include "finding/json.h"
#include "report/log/fingerprint.h"
#include "report/phrasing/phrasing.h"
#include "report/placement/placement.h"
#include "report/record/log_reader.h"
#include "report/traffic/traffic.h"
#include "report/verdict/verdict.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kLongestText = 600;       // bytes of what is kept of every fault
constexpr size_t kMostIds = 1'000'000;     // of one log: repetitions of later findings are not counted
constexpr size_t kMostOperands = 1'000;    // the verdict compares each with each
constexpr ptrdiff_t kMostFrames = 300;     // that are looked for in the repository
constexpr size_t kWholeProcesses = 1'000;  // whose records are kept as they are
constexpr size_t kLongestProcess = 1u << 16;

std::string kept(std::string text) {
  return text.size() <= kLongestText ? std::move(text) : shortened(text, kLongestText / 4);
}

// "cuda:6" is cuda:0 where it comes first.
class Numbering {
 public:
  std::string of(std::string_view device) {
    if (!device.starts_with("cuda:")) return std::string(device);
    const auto known = std::find(seen_.begin(), seen_.end(), device);
    const auto index = known - seen_.begin();
    if (known == seen_.end()) seen_.emplace_back(device);
    return fmt::format("cuda:{}", index);
  }

 private:
  std::vector<std::string> seen_;
};

// What is kept of a process among very many, or of one that says too much.
Json slim(Json record, size_t before) {
  const bool small = json_line(record).size() <= kLongestProcess;
  if (small && before < kWholeProcesses) return record;
  Json out = Json::object();
  for (const char* key :
       {"record", "schema", "pid", "start_ticks", "started", "clock_error", "rehearsal", "host", "boot", "cwd"})
    if (record.contains(key) && record[key].is_primitive() && string(record, key).size() < 1000) out[key] = record[key];
  for (const char* key : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"})
    if (const auto value = string(object(record, "environment"), key); !value.empty() && value.size() < 100)
      out["environment"][key] = value;
  return out;
}

std::string_view rank_of(const Json& process) {
  for (const char* variable : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"})
    if (const auto rank = string(object(process, "environment"), variable); !rank.empty()) return rank;
  return {};
}

}  // namespace

std::string Process::name() const {
  const std::string_view rank = rank_of(record);
  const std::string place = printable(fmt::format("{}{}pid {}", host(), host().empty() ? "" : ", ", pid));
  return rank.empty() ? place : fmt::format("rank {} ({})", printable(rank), place);
}

uint64_t Fault::occurrences() const {
  uint64_t all = 0;
  for (const Occurrences& each : by_process) all += each.count;
  return all;
}

Json Fault::finding() const {
  if (!record.empty()) {
    Json whole = Json::parse(record, nullptr, false);
    if (whole.is_object()) return whole;
  }
  Json slim = {{"record", "finding"},
               {"kind", kind},
               {"fingerprint", fingerprint},
               {"operation", operation},
               {"message", headline}};
  if (!file.empty())
    slim["python"] = {{{"file", file}, {"line", line}, {"function", function}, {"project", in_repository}}};
  return slim;
}

// What holds for the log that is being read.
struct Collection::Reading {
  std::string log;
  std::map<int64_t, size_t> by_pid;  // the process that a record's pid means, now
  std::set<int64_t> refused;         // pids whose process record was left out
  std::optional<size_t> latest;
  size_t first_process = 0;  // of this log
  int64_t nameless = 0;      // ids of records that have none count down
  struct Known {
    size_t fault, process_index;
    uint64_t count;
  };
  std::map<std::pair<size_t, int64_t>, Known> findings;  // process and id
  struct Moved {
    std::string key;
    uint64_t bytes = 0, copies = 0;
  };
  std::map<std::pair<size_t, int64_t>, Moved> traffic;
  bool too_many_sites = false;
  std::map<size_t, Placement> placement;  // by process

  std::optional<size_t> process(const Json& record) const { return process_of(integer(record, "pid")); }
  std::optional<size_t> process_of(std::optional<int64_t> pid) const {
    if (!pid) return latest;
    const auto found = by_pid.find(*pid);
    return found == by_pid.end() ? latest : std::optional(found->second);
  }
};

void Collection::problem(std::string what) {
  if (problems_.size() < kMostProblems) problems_.push_back(std::move(what));
}

// Its records are passed over from now on.
void Collection::refuse(Reading& reading, int64_t pid) {
  if (reading.refused.size() >= kMostProcesses)
    throw LogError(fmt::format("{}: more than {} processes that cannot be read: the rest of it was left out",
                               reading.log, kMostProcesses));
  reading.refused.insert(pid);
}

void Collection::begin(Reading& reading, Json&& record) {
  const auto pid = integer(record, "pid").value_or(0);
  const auto schema = integer(record, "schema");
  if (!schema || *schema != 1) {
    problem(fmt::format("{}: process {} wrote in another schema than 1: its records were left out", reading.log, pid));
    refuse(reading, pid);
    return;
  }
  reading.refused.erase(pid);
  // The same process after an exec goes on; its ids begin anew.
  const auto before = reading.by_pid.find(pid);
  if (before != reading.by_pid.end() &&
      integer(processes_[before->second].record, "start_ticks") == integer(record, "start_ticks")) {
    Process& same = processes_[before->second];
    same.record.update(slim(std::move(record), before->second));
    same.ended = false;
    std::erase_if(reading.findings, [&](const auto& each) { return each.first.first == before->second; });
    std::erase_if(reading.traffic, [&](const auto& each) { return each.first.first == before->second; });
    place(reading, before->second);
    reading.latest = before->second;
    return;
  }
  if (processes_.size() >= kMostProcesses) {
    if (!too_many_processes_)
      problem(fmt::format("{}: more than {} processes: the rest was left out", reading.log, kMostProcesses));
    too_many_processes_ = true;
    refuse(reading, pid);
    return;
  }
  reading.latest = processes_.size();
  reading.by_pid[pid] = processes_.size();
  processes_.push_back({slim(std::move(record), processes_.size()), reading.log, pid, false, 0, {}});
}

void Collection::locate(Fault& fault, const Json& process, const Json& record) {
  const std::string_view cwd = string(process, "cwd");
  const auto take = [&](const Json& frame, std::optional<std::string> path) {
    fault.in_repository = path.has_value();
    fault.file = kept(path ? std::move(*path) : shown_file(string(frame, "file"), cwd));
    fault.function = kept(std::string(string(frame, "function")));
    fault.line = std::max<int64_t>(0, integer(frame, "line").value_or(0));
  };
  for (const char* stack : {"python", "native"}) {
    const Json& frames = array(record, stack);
    for (auto at = frames.begin(); at != frames.end() && at - frames.begin() < kMostFrames; ++at)
      if (auto path = repository_.path_of(string(*at, "file"), cwd)) return take(*at, std::move(path));
  }
  const Json& frame = user_frame(array(record, "python"));
  take(frame.empty() ? native_user_frame(array(record, "native")) : frame, std::nullopt);
}

// What the process said last of its models. Ranks that do the same, each on a device of its own, say the same.
void Collection::place(Reading& reading, size_t process) {
  const auto known = reading.placement.find(process);
  if (known == reading.placement.end()) return;
  const Json& of = processes_[process].record;
  for (const Placement::Root& root : known->second.roots()) {
    auto& names = placement_[root.name];
    for (const Placement::Tensor& tensor : root.tensors) {
      if (!names.contains(tensor.name) && ++placements_ > kMostPlacements) {
        if (!std::exchange(too_many_placements_, true))
          problem(
              fmt::format("{}: more than {} tensors of models: the rest was left out", reading.log, kMostPlacements));
        return;
      }
      names[tensor.name].insert(device_of_rank(of, tensor.device));
    }
  }
  reading.placement.erase(known);
}

bool Collection::too_many_faults(const Reading& reading) {
  if (faults_.size() < kMostFaults) return false;
  if (!too_many_faults_)
    problem(fmt::format("{}: more than {} different findings: the rest was left out", reading.log, kMostFaults));
  return too_many_faults_ = true;
}

// Repetitions, and what comes after very many others: false for what has to be parsed.
bool Collection::take_unparsed(Reading& reading, const FindingLine& line) {
  const auto process = reading.process_of(line.pid);
  if (!process || reading.refused.contains(line.pid)) return true;
  const std::string name = std::string(line.fingerprint) + (line.note ? "n" : "");
  auto known = by_name_.find(name);
  if (known == by_name_.end()) {
    if (too_many_faults(reading)) return true;
    if (faults_.size() < kMostWholeFaults || !today_.suppressions.entries.empty() || line.suppressed()) return false;
    Fault fault;
    fault.fingerprint = line.fingerprint;
    fault.note = line.note;
    fault.kind = line.kind;
    fault.headline = fault.summary =
        fmt::format("{}, not read: there were more than {} other findings", line.kind, kMostWholeFaults);
    known = by_name_.emplace(name, faults_.size()).first;
    faults_.push_back(std::move(fault));
  }
  Fault& fault = faults_[known->second];
  if (fault.suppressed && !line.suppressed()) fault.suppressed.reset();
  met(reading, *process, known->second, line.time, line.id, line.count);
  return true;
}

void Collection::finding(Reading& reading, Json&& record) {
  const auto process = reading.process(record);
  if (!process) return;
  const Json& of = processes_[*process].record;
  std::string fingerprint(string(record, "fingerprint"));
  if (!is_fingerprint(fingerprint)) fingerprint = report::fingerprint(string(of, "cwd"), finding::read(record));
  const bool note = is_note(record);
  const std::string name = fingerprint + (note ? "n" : "");
  const double time = number(record, "time").value_or(0);

  auto known = by_name_.find(name);
  if (known == by_name_.end()) {
    if (too_many_faults(reading)) return;
    record["fingerprint"] = fingerprint;
    if (object(record, "cause").empty() && array(record, "operands").size() <= kMostOperands)
      record["cause"] = finding::to_json(report::verdict::cause_of(finding::read(record)));
    Fault fault;
    fault.fingerprint = std::move(fingerprint);
    fault.note = note;
    fault.kind = kept(std::string(string(record, "kind")));
    fault.operation = kept(std::string(string(record, "operation")));
    fault.headline = kept(headline(record));
    fault.summary = kept(summary(of, record));
    locate(fault, of, record);
    if (const Json& by = object(record, "suppressed"); !by.empty())
      fault.suppressed = {kept(std::string(string(by, "file"))), kept(std::string(string(by, "reason"))),
                          integer(by, "line").value_or(0)};
    fault.suppressed_by = today_.suppressions.covering(finding::read(record), today_.date);
    std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (record_bytes_ + line.size() <= kMostRecordBytes) {
      record_bytes_ += line.size();
      fault.record = std::move(line);
    }
    known = by_name_.emplace(name, faults_.size()).first;
    faults_.push_back(std::move(fault));
  }

  if (object(record, "suppressed").empty()) faults_[known->second].suppressed.reset();
  const auto stated = integer(record, "count").value_or(1);
  met(reading, *process, known->second, time, integer(record, "id"), stated > 0 ? static_cast<uint64_t>(stated) : 1);
}

void Collection::met(Reading& reading, size_t process, size_t of, double time, std::optional<int64_t> id,
                     uint64_t count) {
  Fault& fault = faults_[of];
  fault.last_seen = std::max(fault.last_seen, time);
  // Logs are read one after the other: the processes of this one stand at the end.
  size_t process_index = fault.by_process.size();
  while (process_index > 0 && fault.by_process[process_index - 1].process >= reading.first_process &&
         fault.by_process[process_index - 1].process != process)
    --process_index;
  if (process_index == 0 || fault.by_process[process_index - 1].process != process) {
    fault.by_process.push_back({process, time, 0});
    process_index = fault.by_process.size();
  }
  --process_index;
  fault.by_process[process_index].count += count;
  if (id && reading.findings.size() < kMostIds) reading.findings[{process, *id}] = {of, process_index, count};
}

void Collection::count(Reading& reading, const Json& record) {
  const auto process = reading.process(record);
  const auto id = integer(record, "id"), count = integer(record, "count");
  if (!process || !id || !count || *count <= 0) return;
  const auto known = reading.findings.find({*process, *id});
  if (known == reading.findings.end()) return;
  const auto now = static_cast<uint64_t>(*count);
  if (now <= known->second.count) return;
  faults_[known->second.fault].by_process[known->second.process_index].count += now - known->second.count;
  known->second.count = now;
}

namespace {

void add_owner(Site& site, const Process& process) {
  const std::string rank(rank_of(process.record));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), number);
  if (error == std::errc() && end == rank.data() + rank.size() && site.ranks.size() < kMostOwners)
    site.ranks.insert(number);
  if (!process.host().empty() && site.hosts.size() < kMostOwners) site.hosts.emplace(process.host());
}

}  // namespace

void Collection::traffic(Reading& reading, const Json& record) {
  const auto process = reading.process(record);
  const auto bytes = integer(record, "bytes"), copies = integer(record, "copies");
  const std::string_view from = string(record, "from"), to = string(record, "to");
  if (!process || !bytes || *bytes < 0 || from.empty() || to.empty()) return;
  const int64_t id = integer(record, "id").value_or(--reading.nameless);
  auto& moved = reading.traffic[{*process, id}];
  if (moved.key.empty()) {
    if (reading.traffic.size() > kMostSites || (traffic_.size() >= kMostSites && !reading.too_many_sites)) {
      if (!reading.too_many_sites)
        problem(fmt::format("{}: more than {} call sites of copies: the rest was left out", reading.log, kMostSites));
      reading.too_many_sites = true;
    }
    if (reading.too_many_sites) {
      reading.traffic.erase({*process, id});
      return;
    }
    Numbering numbers;
    const std::string first = numbers.of(from), second = numbers.of(to);
    const Json& of = processes_[*process].record;
    const Json& frame = user_frame(array(record, "python"));
    const auto path = repository_.path_of(string(frame, "file"), string(of, "cwd"));
    Json site = frame;
    if (site.is_object()) site.erase("line");
    if (path) site["file"] = *path;
    std::string where = frame.empty() ? call_site(record, string(of, "cwd")) : report::place(site, string(of, "cwd"));
    const std::string way = from == "ranks" ? "from other ranks" : fmt::format("{} to {}", first, second);
    moved.key = kept(fmt::format("{} at {}", way, where));
  }
  Site& site = traffic_[moved.key];
  const auto all = static_cast<uint64_t>(*bytes);
  const auto times = static_cast<uint64_t>(std::max<int64_t>(0, copies.value_or(0)));
  if (all > moved.bytes) site.bytes += all - moved.bytes;
  if (times > moved.copies) site.copies += times - moved.copies;
  add_owner(site, processes_[*process]);
  moved.bytes = std::max(moved.bytes, all);
  moved.copies = std::max(moved.copies, times);
}

void Collection::read(const std::filesystem::path& log) {
  Reading reading;
  reading.log = log.string();
  reading.first_process = processes_.size();
  ++logs_;
  std::ifstream in;
  const uint64_t before = bytes_;
  uint64_t records = 0;
  const auto report_progress = [&] {
    const auto at = in.tellg();
    if (at > 0) bytes_ = before + static_cast<uint64_t>(at);
    if (progress_) progress_(reading.log, bytes_);
  };
  try {
    in = open_file(log);
    const auto done = read_log(
        in, reading.log,
        [&](Json&& record) {
          if ((++records & 15) == 0 && progress_) report_progress();
          if (rewrite_) record = rewrite_(std::move(record));
          const std::string kind(string(record, "record"));
          if (kind == "process") return begin(reading, std::move(record));
          if (const auto pid = integer(record, "pid"); pid && reading.refused.contains(*pid)) return;
          if (kind == "finding") return finding(reading, std::move(record));
          if (kind == "count") return count(reading, record);
          if (kind == "traffic") return traffic(reading, record);
          if (kind == "placement") {
            if (const auto process = reading.process(record)) reading.placement[*process].take(record);
            return;
          }
          if (kind == "memory" || kind == "out_of_memory") {
            if (const auto process = reading.process(record)) processes_[*process].memory.take(record);
            return;
          }
          if (kind != "end") return;
          if (const auto process = reading.process(record)) {
            processes_[*process].ended = true;
            processes_[*process].dropped =
                static_cast<uint64_t>(std::max<int64_t>(0, integer(record, "dropped").value_or(0)));
          }
        },
        [&](const FindingLine& line) {
          if ((++records & 15) == 0 && progress_) report_progress();
          return take_unparsed(reading, line);
        });
    for (const std::string& warning : done.warnings) problem(warning);
  } catch (const LogError& error) {
    problem(error.what());
    ++unreadable_;
  }
  for (size_t process = reading.first_process; process < processes_.size(); ++process) place(reading, process);
  std::error_code error;
  const auto size = std::filesystem::file_size(log, error);
  bytes_ = before + (error ? 0 : size);
  if (progress_) progress_(reading.log, bytes_);
}

std::vector<const Process*> Collection::unfinished() const {
  std::vector<const Process*> all;
  for (const Process& each : processes_)
    if (!each.ended) all.push_back(&each);
  return all;
}

}  // namespace devtrace::report::check

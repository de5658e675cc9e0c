#include <map>

#include "common/format.h"
#include "common/text.h"
#include "common/version.h"
#include "report/check/edits.h"
#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report::check {
namespace {

constexpr const char* kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
constexpr const char* kRoot = "SRCROOT";

struct Rule {
  std::string_view id, text;
};
constexpr Rule kRules[] = {
    {"refused-op", "PyTorch refused an operation on operands of several devices."},
    {"remote-access", "A kernel was given memory of another device."},
    {"host-access", "A kernel was given memory of the host that its device cannot read."},
    {"wrong-current-device",
     "A kernel was launched while another device was current than the one its data or its stream is on."},
    {"invalid-access", "A kernel used memory that was freed, never given out, or lies behind the end of its block."},
    {"unset-variable", "A kernel read a variable that was set on another device alone."},
    {"uninitialized-read", "A kernel read memory that nothing had written."},
    {"shared-memory-race", "Threads of a block accessed the same shared memory with no barrier between them."},
    {"handle-mismatch",
     "A library was called by a handle of another device than its memory's or the current one, or an event was "
     "recorded on another device's stream."},
    {"copy-mismatch", "A copy states devices or a direction that its two ends contradict."},
    {"duplicate-device", "Ranks of one communicator came with one device."},
    {"collective-mismatch", "Ranks of one communicator ask for different collectives, sizes, types, roots or orders."},
    {"collective-stalled", "Ranks wait in a collective for one that does not come."},
};

// RFC 3986: what is neither unreserved nor a '/' is written as its bytes.
std::string uri(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Json location_of(std::string_view file, int64_t line, bool in_repository, std::string_view function) {
  Json artifact = {{"uri", file.starts_with('/') ? "file://" + uri(file) : uri(file)}};
  if (in_repository) artifact["uriBaseId"] = kRoot;
  Json physical = {{"artifactLocation", std::move(artifact)}};
  if (line > 0) physical["region"] = {{"startLine", line}};
  Json out = {{"physicalLocation", std::move(physical)}};
  if (!function.empty())
    out["logicalLocations"] = {{{"fullyQualifiedName", printable(function)}, {"kind", "function"}}};
  return out;
}

class Run {
 public:
  explicit Run(const Result& result) : result_(result) {}

  std::string write() {
    Json results = Json::array();
    for (const ClassifiedFault& each : result_.judged.faults) results.push_back(of(each));
    if (result_.judged.problems.empty())
      for (const Json& entry : result_.judged.gone) results.push_back(of(entry));

    Json rules = Json::array();
    for (const Rule& rule : kRules) rules.push_back({{"id", rule.id}, {"shortDescription", {{"text", rule.text}}}});
    for (const auto& [id, index] : others_)
      rules.push_back(
          {{"id", id}, {"shortDescription", {{"text", "A finding of a kind that this devtrace does not know."}}}});

    Json notifications = Json::array();
    for (const std::string& problem : result_.judged.problems)
      notifications.push_back({{"level", "error"}, {"message", {{"text", printable(problem)}}}});
    for (const auto& each : result_.judged.traffic)
      if (each.fails)
        notifications.push_back({{"level", "error"},
                                 {"message",
                                  {{"text", fmt::format("more traffic {}: {} bytes, was {}", printable(each.site),
                                                        each.now.bytes, each.before.bytes)}}}});
    const int code = result_.judged.exit_code();
    Json invocation = {{"executionSuccessful", code != 2}, {"exitCode", code}};
    if (!notifications.empty()) invocation["toolExecutionNotifications"] = std::move(notifications);

    Json run;
    run["tool"]["driver"] = {{"name", "devtrace"}, {"version", kVersion}, {"rules", std::move(rules)}};
    run["originalUriBaseIds"][kRoot] = {
        {"uri", "file://" + uri(result_.root) + (result_.root.ends_with('/') ? "" : "/")}};
    run["invocations"] = {std::move(invocation)};
    run["columnKind"] = "utf16CodeUnits";
    run["results"] = std::move(results);
    Json log;
    log["$schema"] = kSchema;
    log["version"] = "2.1.0";
    log["runs"] = {std::move(run)};
    return log.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
  }

 private:
  int rule_index(const std::string& kind) {
    int index = 0;
    for (const Rule& rule : kRules) {
      if (rule.id == kind) return index;
      ++index;
    }
    return static_cast<int>(others_.try_emplace(kind, index + static_cast<int>(others_.size())).first->second);
  }

  Json base(std::string_view raw_kind, std::string_view fingerprint) {
    // Rules of unknown kinds are listed in the order of their names, so an index would have to wait: the id is enough.
    const std::string kind = raw_kind.empty() ? "finding" : printable(raw_kind);
    const int index = rule_index(kind);
    Json out = {{"ruleId", kind}};
    if (index < static_cast<int>(std::size(kRules))) out["ruleIndex"] = index;
    out["partialFingerprints"] = {{"devtrace/v1", printable(fingerprint)}};
    return out;
  }

  Json of(const ClassifiedFault& judged) {
    const Fault& fault = *judged.fault;
    const Json finding = fault.finding();
    Json out = base(fault.kind, fault.fingerprint);
    out["level"] = fault.note ? "note" : "error";
    out["baselineState"] = judged.status == Status::added || judged.status == Status::suppressed ? "new" : "unchanged";
    const Json& process = result_.logs.processes()[fault.by_process.front().process].record;
    out["message"] = {{"text", paragraph(fault, result_.logs)}};
    out["locations"] = Json::array();
    if (!fault.file.empty())
      out["locations"].push_back(location_of(fault.file, fault.line, fault.in_repository, fault.function));
    related(out, fault, finding);
    fixes(out, process, finding);
    out["occurrenceCount"] = std::max<uint64_t>(1, fault.occurrences());
    if (judged.status == Status::suppressed)
      out["suppressions"] = {{{"kind", "external"}, {"justification", printable(judged.reason)}}};
    out["properties"] = {{"seenBy", occurrences(fault, result_.logs)},
                         {"suppressionEntry", suppression_entry(process, finding)}};
    return out;
  }

  // Where the operands came from, as far as a frame of the user's own says.
  void related(Json& out, const Fault& fault, const Json& finding) {
    const auto cwd = string(result_.logs.processes()[fault.by_process.front().process].record, "cwd");
    Json all = Json::array();
    for (const Json& operand : array(finding, "operands")) {
      for (const char* event : {"created", "moved"}) {
        const Json& frame = user_frame_of(object(operand, event));
        if (string(frame, "file").empty() || all.size() >= 20) continue;
        Json one = location_of(shown_file(string(frame, "file"), cwd), integer(frame, "line").value_or(0), false,
                               string(frame, "function"));
        one["id"] = all.size();
        one["message"] = {{"text", printable(fmt::format("{} was {} here", name_of(operand), event))}};
        all.push_back(std::move(one));
      }
    }
    if (!all.empty()) out["relatedLocations"] = std::move(all);
  }

  // What editors offer to do: all edits as one.
  void fixes(Json& out, const Json& process, const Json& finding) {
    std::map<std::string, Json> by_file;
    for (Replacement& each : replacements(finding, string(process, "cwd"), result_.logs.repository())) {
      const Json region = {{"startLine", each.first},
                           {"startColumn", each.column},
                           {"endLine", each.last},
                           {"endColumn", each.end_column}};
      auto& changes = by_file.try_emplace(each.file, Json::array()).first->second;
      changes.push_back({{"deletedRegion", region}, {"insertedContent", {{"text", std::move(each.text)}}}});
    }
    if (by_file.empty()) return;
    Json changes = Json::array();
    for (auto& [file, replaced] : by_file)
      changes.push_back(
          {{"artifactLocation", {{"uri", uri(file)}, {"uriBaseId", kRoot}}}, {"replacements", std::move(replaced)}});
    const std::string what(repairs(object(finding, "cause")));
    out["fixes"] = {{{"description", {{"text", what.empty() ? "devtrace's fix" : "devtrace's fix: " + what}}},
                     {"artifactChanges", std::move(changes)}}};
  }

  Json of(const Json& gone) {
    Json out = base(string(gone, "kind"), string(gone, "fingerprint"));
    out["level"] = "none";
    out["kind"] = "pass";
    out["baselineState"] = "absent";
    out["message"] = {{"text", "gone: " + printable(string(gone, "summary"))}};
    out["locations"] = Json::array();
    if (const auto file = string(gone, "file"); !file.empty())
      out["locations"].push_back(location_of(file, 0, !file.starts_with('/'), string(gone, "function")));
    return out;
  }

  const Result& result_;
  std::map<std::string, int> others_;
};

}  // namespace

std::string sarif(const Result& result) {
  return Run(result).write();
}

}  // namespace devtrace::report::check

// devtrace report: logs, read again.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/browser.h"
#include "cli/launch/python_module.h"
#include "cli/output.h"
#include "cli/records/shown.h"
#include "cli/subcommand.h"
#include "cli/tables/tables.h"
#include "common/format.h"
#include "common/text.h"
#include "report/check/outputs.h"
#include "report/html/html.h"
#include "report/placement/memory_use.h"
#include "report/placement/placement.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"
#include "report/tables/completed.h"
#include "report/text/first_findings.h"
#include "report/text/markdown.h"
#include "report/text/process_facts.h"
#include "report/text/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;
using report::Json;

struct ReportOptions {
  std::vector<std::string> logs;
  std::string format, output, otlp, otlp_spool;
  bool redact = false, findings_only = false, open = false;
  unsigned tokens = 0;
};

// What is known of a process when its log has been read.
struct Whole {
  report::Traffic traffic;
  report::Placement placement;
  report::MemoryUse memory;
  Json end = Json::object();
  report::FirstFindings first;
};

// One row a format: how a process, a finding and any other record are written, and what comes after them all.
struct Format {
  const char* name;
  std::string (*process)(const Json& process);
  std::string (*finding)(const Json& process, const Json& finding);
  std::string (*other)(const Json& process, const Json& record);
  std::string (*closing)(const Json& process, const Whole& whole);
  bool every_finding = false;  // however many there are
};

std::string nothing(const Json&) {
  return {};
}
std::string nothing_else(const Json&, const Json&) {
  return {};
}
std::string no_closing(const Json&, const Whole&) {
  return {};
}
std::string with_newline(std::string text) {
  return text.empty() ? text : text + '\n';
}
// Two parts of a page, an empty line between them.
std::string after(const std::string& first, const std::string& second) {
  return first.empty() ? second : second.empty() ? first : first + '\n' + second;
}

const Format kFormats[] = {
    {"text", nothing,
     [](const Json& process, const Json& finding) { return report::text(process, finding, to_terminal()) + '\n'; },
     nothing_else,
     [](const Json& process, const Whole& whole) {
       return after(
           with_newline(whole.first.left_out()),
           after(after(report::traffic_text(process, whole.traffic),
                       after(report::placement_text(whole.placement), report::memory_text(process, whole.memory))),
                 report::process_text(process, whole.end)));
     }},
    {"html", report::html_head, report::html_finding,
     [](const Json& process, const Json& record) {
       const auto kind = report::string(record, "record");
       if (kind == "traffic") return report::html_traffic(process, record);
       if (kind == "placement") return report::html_placement(record);
       if (kind == "memory" || kind == "out_of_memory") return report::html_memory(process, record);
       return report::html_record(report::json_line(record));
     },
     [](const Json&, const Whole& whole) {
       const std::string said = whole.first.left_out();
       return said.empty() ? said : report::html_record(report::json_line({{"record", "left_out"}, {"says", said}}));
     }},
    {"json", report::json_line, [](const Json&, const Json& finding) { return report::json_line(finding); },
     [](const Json&, const Json& record) { return report::json_line(record); }, no_closing, true},
    {"markdown", nothing,
     [](const Json& process, const Json& finding) { return report::markdown(process, finding) + '\n'; }, nothing_else,
     [](const Json& process, const Whole& whole) {
       return after(with_newline(whole.first.left_out()),
                    after(after(report::traffic_markdown(process, whole.traffic),
                                after(report::placement_markdown(whole.placement),
                                      report::memory_markdown(process, whole.memory))),
                          report::process_markdown(process, whole.end)));
     }},
};

const Format& format_named(const std::string& name) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& each) { return name == each.name; });
}

// The formats of other tools that know of no single process: written of all logs together, however many there are.
constexpr std::string_view kOfAll = "github";
// A folder of tables.
constexpr std::string_view kTables = "parquet";

struct Sink {
  const Format& format;
  Output& output;
};

// One pass over the log for all outputs. A finding's repetitions come after it, so they are said at the end.
uint64_t write_log(const fs::path& log, Shown& shown, const std::vector<Sink>& sinks, bool findings_only,
                   bool& trouble) {
  Json process;
  Whole whole;
  uint64_t findings = 0;
  const bool all = std::any_of(sinks.begin(), sinks.end(), [](const Sink& sink) { return sink.format.every_finding; });
  std::set<int64_t> ids;  // of the process's findings that are shown
  const auto pass_over = [&](const report::FindingLine& line) {
    if (all || whole.first.shows(line.fingerprint)) return false;
    ++findings;
    whole.first.leave_out(line.fingerprint);
    return true;
  };
  shown.begin_log();
  const auto reading = report::read_log(
      log,
      [&](Json&& raw) {
        const Json record = shown(std::move(raw));
        const auto kind = std::string(report::string(record, "record"));
        if (kind == "finding") {
          ++findings;
          const auto fingerprint = report::string(record, "fingerprint");
          if (!all && !whole.first.shows(fingerprint)) return whole.first.leave_out(fingerprint);
          whole.first.take(fingerprint);
          ids.insert(report::integer(record, "id").value_or(0));
          for (const Sink& sink : sinks) sink.output.write(sink.format.finding(process, record));
        } else if (process.is_null()) {
          process = record;
          for (const Sink& sink : sinks) sink.output.write(sink.format.process(process));
        } else {
          if (kind == "process") {
            process = shown.process();
            whole.traffic.begin_anew();
            whole.placement.begin_anew();
            whole.memory.begin_anew();
            ids.clear();
          }
          if (kind == "count" && !all && !ids.contains(report::integer(record, "id").value_or(0))) return;
          if (kind == "traffic") whole.traffic.take(record);
          if (kind == "placement") whole.placement.take(record);
          if (kind == "memory" || kind == "out_of_memory") whole.memory.take(record);
          if (kind == "end") whole.end = record;
          for (const Sink& sink : sinks) sink.output.write(sink.format.other(process, record));
        }
      },
      pass_over);
  if (!findings_only)
    for (const Sink& sink : sinks) sink.output.write(sink.format.closing(process, whole));
  for (const std::string& warning : reading.warnings) fmt::print(stderr, "devtrace report: {}\n", printable(warning));
  trouble |= !reading.warnings.empty();
  if (!reading.ended) {
    fmt::print(stderr, "devtrace report: {}: has no end record: the process was killed, or is still running\n",
               printable(log.string()));
  }
  return findings;
}

fs::path html_beside(const fs::path& log) {
  return fs::path(log).replace_extension(".html");
}

// Several logs as one report: what several processes met is told once. `pages`: gets the one that it writes.
int write_merged(const ReportOptions& options, const std::vector<fs::path>& logs, bool unreadable,
                 std::vector<std::string>& pages) {
  namespace check = report::check;
  check::Repository repository("");
  const report::Suppressions none;
  Shown shown(options.redact);
  check::Collection::Rewrite rewrite;
  if (options.redact) rewrite = [&](Json&& record) { return shown(std::move(record)); };
  check::Collection all(repository, {none, ""}, {}, std::move(rewrite));
  for (const fs::path& log : logs) {
    shown.begin_log();
    all.read(log);
  }
  for (const std::string& problem : all.problems()) fmt::print(stderr, "devtrace report: {}\n", printable(problem));
  for (const check::Process* each : all.unfinished())
    fmt::print(stderr, "devtrace report: {}: has no end record: the process was killed, or is still running\n",
               printable(each->log));
  const check::Comparison judged = check::compare(all, {}, none, "", {});
  const check::Result result{all, judged, repository.root().string(), false};

  const bool by_default = options.format.empty();
  if (by_default || options.format == "html") {
    const std::string file = by_default ? (logs.front().parent_path() / "devtrace-all.html").string() : options.output;
    Output page(file);
    check::check_html(result, [&](std::string_view text) { page.write(text); });
    page.finish();
    pages.push_back(file);
    if (by_default) fmt::print(stderr, "devtrace report: HTML in {}\n", printable(file));
  }
  if (options.format != "html") {
    Output out(by_default ? "" : options.output);
    out.write(options.format == kOfAll       ? check::github(result)
              : options.format == "markdown" ? check::merged_markdown(result)
                                             : check::merged_text(result, to_terminal()));
    out.finish();
  }
  return unreadable || all.unreadable() > 0 ? kBadUsage : 0;
}

// What the name of the file asks for; empty: nothing that is known.
std::string format_of_name(const std::string& file) {
  const std::string extension = fs::path(file).extension();
  if (extension == ".html" || extension == ".htm") return "html";
  if (extension == ".md") return "markdown";
  if (extension == ".json" || extension == ".jsonl") return "json";
  return extension == ".txt" ? "text" : "";
}

void complain(const std::exception& error) {
  fmt::print(stderr, "devtrace report: {}\n", printable(error.what()));
}

// The logs that the options name; `unreadable`: one of them is none.
std::vector<fs::path> logs_of(const ReportOptions& options, bool& unreadable) {
  std::vector<fs::path> logs;
  for (const std::string& argument : options.logs) {
    try {
      const auto found = report::logs_at(argument);
      logs.insert(logs.end(), found.begin(), found.end());
    } catch (const report::LogError& error) {
      complain(error);
      unreadable = true;
    }
  }
  return logs;
}

// The logs' records, completed and as --redact wants them, to a collector.
int send_records(const ReportOptions& options) {
  bool unreadable = false, trouble = false;
  const std::vector<fs::path> logs = logs_of(options, unreadable);
  if (!options.otlp.starts_with("http://") && !options.otlp.starts_with("https://"))
    throw Failure(kBadUsage, fmt::format("--otlp: '{}' is no address of OTLP over HTTP, like http://collector:4318",
                                         options.otlp));
  std::vector<std::string> words = {options.otlp};
  if (!options.otlp_spool.empty()) words.push_back(fs::absolute(options.otlp_spool).string());
  PythonModule sender("otlp", words);  // OpenTelemetry's official SDK is Python's
  Output output(sender.input());
  Shown shown(options.redact);
  std::set<fs::path> seen;  // the same log twice would be two processes
  for (const fs::path& log : logs) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(log, error)).second) continue;
    try {
      write_log(log, shown, {{format_named("json"), output}}, false, trouble);
    } catch (const report::LogError& failure) {
      complain(failure);
      unreadable = true;
    }
  }
  output.finish();
  const int sent = sender.finish() == 0 ? 0 : kBadUsage;
  return unreadable ? kBadUsage : sent;
}

int write_reports(ReportOptions options, std::vector<std::string>& pages) {
  if (options.format.empty()) options.format = format_of_name(options.output);
  if (options.format == kTables) return write_tables(options.logs, options.output, options.redact);
  bool unreadable = false, trouble = false;
  const std::vector<fs::path> logs = logs_of(options, unreadable);
  const bool by_default = options.format.empty();
  if (options.format == kOfAll) return write_merged(options, logs, unreadable, pages);
  const Format& format = format_named(by_default ? "text" : options.format);
  // Without a file named, each log has its page beside it.
  const bool html_alone = format.name == std::string("html") && options.output.empty();
  if (logs.size() > 1 && !html_alone && format.name != std::string("json"))
    return write_merged(options, logs, unreadable, pages);

  Shown shown(options.redact, options.tokens);
  Output main(html_alone ? "" : options.output);
  for (const fs::path& log : logs) {
    try {
      uint64_t findings = 0;
      fs::path page;
      if (html_alone || by_default) {
        page = html_beside(log);
        Output html(page.string());
        std::vector<Sink> sinks = {{format_named("html"), html}};
        if (!html_alone) sinks.push_back({format, main});
        findings = write_log(log, shown, sinks, options.findings_only, trouble);
        html.finish();
      } else {
        findings = write_log(log, shown, {{format, main}}, options.findings_only, trouble);
      }
      if (findings == 0 && (by_default || html_alone || options.format == "text"))
        fmt::print(stderr, "devtrace report: {}: no findings\n", printable(log.string()));
      if (!page.empty()) fmt::print(stderr, "devtrace report: HTML in {}\n", printable(page.string()));
      if (!page.empty()) pages.push_back(page.string());
    } catch (const report::LogError& error) {
      complain(error);
      unreadable = true;
    }
  }
  main.finish();
  if (format.name == std::string("html") && !html_alone) pages.push_back(options.output);
  return unreadable ? kBadUsage : 0;
}

int report_and_open(const ReportOptions& options) {
  std::vector<std::string> pages;
  const bool sends = !options.otlp.empty();
  const int sent = sends ? send_records(options) : 0;
  if (sends && options.format.empty() && options.output.empty() && !options.open) return sent;
  const int code = std::max(sent, write_reports(options, pages));
  if (!options.open || (pages.empty() && code != 0)) return code;
  if (pages.size() != 1 || pages.front() == "-")
    throw Failure(kBadUsage, fmt::format("--open shows one page, and {}: leave out --format and --output",
                                         pages.size() > 1 ? "each log got one" : "none was written to a file"));
  open_in_browser(pages.front());
  return code;
}

}  // namespace

Action declare_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  set_usage(app, "[options] LOG|FOLDER...");
  std::vector<std::string> names;
  for (const Format& each : kFormats) names.push_back(each.name);
  names.emplace_back(kOfAll);
  names.emplace_back(kTables);
  app.add_option("logs", options->logs, "logs (devtrace-*.jsonl), or folders of them")
      ->type_name("LOG|FOLDER")
      ->required();
  app.add_option(
         "--format", options->format,
         "text, html, json (the records, completed), markdown, github (annotations of a job's lines) or "
         "parquet (tables, of folders with all below them) [by --output's .txt, .html, .json or .md; else text, "
         "and the HTML beside the log, of several logs in devtrace-all.html]")
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
  app.add_option("-o,--output", options->output,
                 "write to this file (of parquet: append to this folder); - is standard output [html: a page beside "
                 "each log; else standard output]")
      ->type_name("FILE");
  app.add_flag(
      "--redact", options->redact,
      "for reports that leave the house: replace paths and names that are not a well-known package's, and leave "
      "out host, command, strings and comments");
  app.add_flag("--findings-only", options->findings_only,
               "text and Markdown of one log: without what moved, what lies where and what is known of the process");
  app.add_option("--tokens", options->tokens,
                 "how many tokens (or steps) the program made: what crosses each link while it works, and the least "
                 "time for it, is told for one too")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option(
         "--otlp", options->otlp,
         "send findings as log records, traffic and memory as metrics to this collector of OpenTelemetry's, like "
         "http://collector:4318; a report is written besides where --format, --output or --open asks for one")
      ->type_name("ENDPOINT");
  app.add_option("--otlp-spool", options->otlp_spool,
                 "where records that could not be sent wait for the next call [~/.local/state/devtrace/otlp]")
      ->type_name("FOLDER");
  app.add_flag("--open", options->open, "show the HTML page by BROWSER, or by xdg-open");
  app.footer(
      "Several logs, or a folder's, are one report: the same fault in several processes is told once, with its "
      "witnesses. json gives their records\n"
      "one after the other.\n"
      "\n"
      "A log that was cut off, because its process was killed, is read as far as it goes, and that is said.\n"
      "\n"
      "Exit status: 0 when every log was read, whatever it holds, and whether or not --otlp's endpoint answers; 2 when "
      "one could not be read,\n"
      "OpenTelemetry's SDK is missing, no browser could be opened, or for bad usage.");
  return [options](const AfterDashes&) { return report_and_open(*options); };
}

}  // namespace devtrace::cli

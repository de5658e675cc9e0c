// devtrace check: the gate of a nightly job.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <set>

#include "cli/check/last_change.h"
#include "cli/output.h"
#include "cli/records/shown.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "report/check/outputs.h"
#include "report/phrasing/phrasing.h"
#include "report/record/log_reader.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;
using namespace report::check;
using report::Json;

constexpr const char* kText = "text";

struct CheckOptions {
  std::vector<std::string> logs;
  std::string baseline, suppressions, root, date, tolerance;
  std::string junit, sarif, github, markdown, html, format = kText;
  bool redact = false, update = false, keep_gone = false, allow_unfinished = false, fail_on_placement = false,
       quiet = false;
  size_t expected = 0;
};

void print_line(const std::string& what) {
  fmt::print(stderr, "devtrace check: {}\n", printable(what));
}

// One line on a terminal that is overwritten, five times a second at most.
class Progress {
 public:
  Progress(uint64_t bytes, size_t logs) : all_(bytes), logs_(logs), shown_(isatty(STDERR_FILENO)) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void next() { ++log_; }
  void at(uint64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    fmt::print(stderr, "\r\033[Kreading log {} of {}, {} of {}", log_, logs_,
               report::bytes(static_cast<int64_t>(bytes)), report::bytes(static_cast<int64_t>(all_)));
    std::fflush(stderr);
    written_ = true;
  }
  void clear() {
    if (written_) fmt::print(stderr, "\r\033[K");
    written_ = false;
  }

 private:
  uint64_t all_;
  size_t logs_, log_ = 0;
  bool shown_, written_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// "20%", "20 %", "0.2"; nothing when it is none.
std::optional<double> share(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  std::string_view rest = end;
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (end == text.c_str() || !(value >= 0 && value <= 1e6) || (!rest.empty() && rest != "%")) return std::nullopt;
  return rest.empty() ? value : value / 100;
}

std::string valid_share(std::string& text) {
  return share(text) ? "" : fmt::format("'{}' is no share; write 20% or 0.2", text);
}

std::string valid_date(std::string& text) {
  const report::Suppressions read = report::parse_suppressions("kind=x expires=" + text, "");
  return read.complaints.empty() && !text.empty() ? "" : fmt::format("'{}' is not a date like 2026-12-31", text);
}

report::Suppressions read_suppressions(const std::string& file) {
  if (file.empty()) return {};
  errno = 0;
  auto read = report::read_suppressions(file);
  if (!read)
    throw Failure(kBadUsage, fmt::format("{}: cannot be read: {}", file, std::generic_category().message(errno)));
  for (const std::string& complaint : read->complaints) print_line(complaint);
  if (!read->complaints.empty())
    throw Failure(kBadUsage, fmt::format("{}: not understood whole, so nothing was judged", file));
  return std::move(*read);
}

// Each log once, however often it is named.
std::vector<fs::path> logs_of(const CheckOptions& options, Collection& into) {
  std::vector<fs::path> all;
  std::set<fs::path> seen;
  for (const std::string& argument : options.logs) {
    try {
      const bool named = !fs::is_directory(argument);
      for (const fs::path& log : report::all_logs_at(argument)) {
        std::error_code error;
        const bool plain = fs::is_regular_file(log, error);
        if (!plain && !(named && !options.redact && fs::is_fifo(log, error))) {
          into.problem(fmt::format("{}: not a file that can be read", log.string()));
          continue;
        }
        const fs::path whole = plain ? fs::weakly_canonical(log, error) : log;
        if (seen.insert(whole).second) all.push_back(log);
      }
    } catch (const std::exception& error) {
      into.problem(error.what());
    }
  }
  return all;
}

Baseline read_baseline(const CheckOptions& options) {
  std::error_code error;
  if (options.baseline.empty() || (options.update && !fs::exists(options.baseline, error))) return {};
  return report::check::read_baseline(options.baseline);
}

int update(const CheckOptions& options, const Collection& logs, const Baseline& before, const Comparison& judged) {
  if (!judged.problems.empty()) {
    print_line(fmt::format("{} was left as it was: not everything could be judged", options.baseline));
    return kBadUsage;
  }
  std::set<std::string> suppressed;
  for (const ClassifiedFault& each : judged.faults)
    if (each.status == Status::suppressed) suppressed.insert(each.fault->fingerprint);
  write_file(options.baseline, updated(before, logs, suppressed, options.keep_gone));
  print_line(fmt::format("{}: {} taken up, {} {}", options.baseline, judged.count(Status::added), judged.gone.size(),
                         options.keep_gone ? "gone but kept" : "left out as gone"));
  return 0;
}

// The files that were asked for, and standard output.
void write_outputs(const CheckOptions& options, const Result& result) {
  write_file(options.junit, options.junit.empty() ? "" : junit(result));
  write_file(options.sarif, options.sarif.empty() ? "" : sarif(result));
  write_file(options.github, options.github.empty() ? "" : github(result));
  write_file(options.markdown, options.markdown.empty() ? "" : check_markdown(result));
  if (!options.html.empty()) {
    Output page(options.html);
    check_html(result, [&](std::string_view text) { page.write(text); });
    page.finish();
  }
  Output out("");
  if (options.format == kText) {
    out.write(options.quiet ? result.judged.tally() + '\n' : check_text(result, to_terminal()));
  } else {
    // Whose name stands in the history is nobody's business where names are left out.
    out.write(messages(result, options.format, [&](const Fault& fault) {
      return options.redact ? std::nullopt : last_change(fault, result.logs.repository());
    }));
    if (const size_t all = result.judged.count(Status::added); all > kMostMessages)
      print_line(
          fmt::format("{} more new findings have no message, after the first {}", all - kMostMessages, kMostMessages));
    print_line(result.judged.tally());
  }
  out.finish();
}

// The same without what tells whose program it was. What is told by it must be what was judged, so the logs are read
// once more: a suppression or a baseline knows the true names.
void write_redacted(const CheckOptions& options, const std::vector<fs::path>& files, const Comparison& judged) {
  constexpr const char* kNowhere = "/project";
  Repository repository(kNowhere);
  const report::Suppressions none;
  Shown shown(true);
  Collection logs(repository, {none, ""}, {}, [&](Json&& record) { return shown(std::move(record)); });
  for (const fs::path& file : files) {
    shown.begin_log();
    logs.read(file);
  }
  write_outputs(options, {logs, redacted(judged, logs), kNowhere});
}

int check(const CheckOptions& options) {
  if (options.update && options.baseline.empty()) throw Failure(kBadUsage, "--update-baseline needs --baseline FILE");
  const report::Suppressions suppressions = read_suppressions(options.suppressions);
  const std::string today =
      options.date.empty() ? report::date_of(static_cast<double>(std::time(nullptr))) : options.date;
  const Baseline baseline = read_baseline(options);

  Repository repository(options.root);
  std::optional<Progress> progress;
  Collection logs(repository, {suppressions, today}, [&](const std::string&, uint64_t bytes) { progress->at(bytes); });
  const auto files = logs_of(options, logs);
  uint64_t bytes = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    bytes += error ? 0 : size;
  }
  progress.emplace(bytes, files.size());
  for (const fs::path& file : files) {
    progress->next();
    logs.read(file);
  }
  progress->clear();

  Rules rules;
  if (!options.tolerance.empty() && !options.update) rules.traffic_tolerance = share(options.tolerance);
  rules.fail_on_placement = options.fail_on_placement && !options.update;
  rules.allow_unfinished = options.allow_unfinished;
  rules.expected_processes = options.expected;
  const Comparison judged = compare(logs, baseline, suppressions, today, rules);

  for (const std::string& problem : judged.problems) print_line(problem);
  for (const std::string& remark : judged.remarks) print_line(remark);
  if (options.redact)
    write_redacted(options, files, judged);
  else
    write_outputs(options, {logs, judged, repository.root().string()});
  if (options.update) return update(options, logs, baseline, judged);
  const int code = judged.exit_code();
  if (code == 2) print_line("could not judge: see above");
  return code;
}

}  // namespace

Action declare_check(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  set_usage(app, "[options] LOG|FOLDER...");
  const auto file = [&](const char* name, std::string& value, const char* what) {
    app.add_option(name, value, what)->type_name("FILE");
  };
  app.add_option("logs", options->logs, "logs, or folders: all *.jsonl in them and below")
      ->type_name("LOG|FOLDER")
      ->required();
  file("--baseline", options->baseline, "what is known already [nothing: every finding is new]");
  app.add_flag(
      "--update-baseline", options->update,
      "take up what is new, leave out what is gone, and write the baseline; notes and dates of the others stay");
  app.add_flag("--keep-gone", options->keep_gone, "with --update-baseline: leave nothing out");
  file("--suppressions", options->suppressions, "findings that are accepted for a while (docs/guide/suppressions.md)");
  file("--junit", options->junit, "write JUnit XML");
  file("--sarif", options->sarif, "write SARIF 2.1.0");
  file("--github", options->github, "write GitHub's workflow commands for what is new; - is standard output");
  file("--markdown", options->markdown, "write a summary for the job's page");
  file("--html", options->html, "write the HTML page of all processes");
  app.add_option("--root", options->root,
                 "the repository: places are given from there [the git work tree around the current folder, else that]")
      ->type_name("FOLDER")
      ->check(CLI::Validator(CLI::ExistingDirectory).description(""));
  app.add_option("--traffic-tolerance", options->tolerance,
                 "fail when a call site moved so much more between devices than in the baseline, and 1 MiB more at "
                 "least, like 20% [traffic is told, and fails nothing]")
      ->type_name("SHARE")
      ->check(CLI::Validator(valid_share, ""));
  app.add_flag("--fail-on-placement", options->fail_on_placement,
               "fail when a parameter, buffer or cache of a model lies on another device than in the baseline");
  app.add_flag("--allow-unfinished", options->allow_unfinished,
               "accept logs without an end record, of processes that are killed on purpose");
  app.add_option("--expect-processes", options->expected, "could not judge when fewer processes left a log")
      ->type_name("N")
      ->check(CLI::Validator(CLI::Range(1, 10'000'000)).description(""));
  app.add_option("--date", options->date, "the day by which suppressions expire, like 2026-12-31 [today, UTC]")
      ->type_name("DATE")
      ->check(CLI::Validator(valid_date, ""));
  CLI::Option* const quiet = app.add_flag("--quiet", options->quiet, "print the tally only");
  std::vector<std::string> formats = message_formats();
  formats.insert(formats.begin(), kText);
  app.add_option(
         "--format", options->format,
         "what is printed: text; or of each new finding a message to be sent, one JSON object a line: github or "
         "gitlab (an issue), slack-json (a message of Block Kit). The tally is then on standard error")
      ->type_name("NAME")
      ->check(CLI::IsMember(formats))
      ->capture_default_str()
      ->excludes(quiet);
  app.add_flag("--redact", options->redact,
               "all that is printed and written, but for the baseline, as by devtrace report --redact; who last "
               "changed a line is left out as well. Standard error still names files and hosts");
  app.footer(
      "The same fault in several processes, on whatever devices, is one finding with several witnesses; findings are "
      "told apart by their\n"
      "fingerprint, which has no line number, address or device number in it. Against the baseline each is new, known "
      "or gone. Notes fail nothing.\n"
      "\n"
      "Exit status:\n"
      "  0  nothing new, and every log was read whole\n"
      "  1  something new: a finding, traffic above the tolerance, a changed placement where that fails\n"
      "  2  could not judge, and nothing new in what could be read: a log is missing, empty, cut off, foreign or of a "
      "later schema; findings were\n"
      "     dropped (max_findings); nothing to read; a bad baseline or suppression file; bad usage\n"
      "\n"
      "Examples:\n"
      "  devtrace check --baseline devtrace.json logs/                        the gate\n"
      "  devtrace check --baseline devtrace.json --update-baseline logs/      accept what is there now\n"
      "  devtrace check --baseline devtrace.json --junit j.xml --sarif s.sarif logs/\n"
      "  devtrace check --baseline devtrace.json --format github logs/        messages of what is new; devtrace sends "
      "nothing\n"
      "\n"
      "docs/guide/nightly.md has jobs for GitHub, GitLab, Slurm and Kubernetes.");
  return [options](const AfterDashes&) -> int {
    try {
      return check(*options);
    } catch (const BaselineError& error) {
      throw Failure(kBadUsage, error.what());
    }
  };
}

}  // namespace devtrace::cli

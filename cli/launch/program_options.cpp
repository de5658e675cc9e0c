#include "cli/launch/program_options.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/subcommand.h"
#include "common/format.h"
#include "report/log/suppressions.h"

namespace devtrace::cli {
namespace {

// One key=value as DEVTRACE_OPTIONS reads it: a ':' ends the item unless quoted, and a quote cannot be escaped.
std::string item(std::string_view key, std::string_view value) {
  if (value.find('"') != value.npos)
    throw Failure(kBadUsage, fmt::format("option {}: the value {} must not hold a quotation mark", key, value));
  const bool quote = value.find(':') != value.npos;
  return fmt::format("{}={}{}{}", key, quote ? "\"" : "", value, quote ? "\"" : "");
}

// The file's absolute path: the program may be elsewhere when its first finding is made. A mistake in it is told now.
std::string readable_suppressions(const std::string& file) {
  errno = 0;
  const auto read = report::read_suppressions(file);
  if (!read) throw Failure(kBadUsage, fmt::format("--suppressions {}: cannot be read: {}", file, std::strerror(errno)));
  if (!read->complaints.empty()) throw Failure(kBadUsage, read->complaints.front());
  return std::filesystem::absolute(file).string();
}

// The folder in front of the first % of a log's path: nobody else would make it, and every process of a job would lose
// its log. Where it cannot be made the library says so.
void make_log_folder(const std::string& pattern) {
  const std::string plain = pattern.substr(0, pattern.find('%'));
  const size_t slash = plain.rfind('/');
  if (slash == plain.npos || slash == 0) return;
  std::error_code ignored;
  std::filesystem::create_directories(plain.substr(0, slash), ignored);
}

// The program and its arguments. Without "--" they begin at the first word that is no option; a "--" after that is the
// program's own.
std::vector<std::string> program_of(const CLI::App& app, const AfterDashes& after_dashes) {
  std::vector<std::string> words = app.remaining();
  if (!words.empty() && words[0].size() > 1 && words[0][0] == '-') {
    throw Failure(kBadUsage, fmt::format("there is no option {}\nTry 'devtrace {} --help'.", words[0], app.get_name()));
  }
  if (after_dashes) {
    if (!words.empty()) words.push_back("--");
    words.insert(words.end(), after_dashes->begin(), after_dashes->end());
  }
  if (words.empty() || words[0].empty()) {
    throw Failure(
        kBadUsage,
        fmt::format(
            "no program is given\nUsage: devtrace {0} [options] -- program [arguments]\nTry 'devtrace {0} --help'.",
            app.get_name()));
  }
  return words;
}

}  // namespace

void LibraryOptions::declare_library(CLI::App& app) {
  app.add_option(
         "--log-path", log_path,
         "the log's file; %p is the process id, %h the host, %q{VAR} an environment variable [devtrace-%p.jsonl]")
      ->type_name("FILE");
  app.add_option(
         "--suppressions", suppressions,
         "findings that are accepted for a while: in the log, counted, and not told (docs/guide/suppressions.md)")
      ->type_name("FILE");
  app.add_option("--option,--options", options,
                 "an option of the library, as in DEVTRACE_OPTIONS; may be repeated (--option help=1 lists them)")
      ->type_name("KEY=VALUE")

      ->allow_extra_args(false);
  app.add_flag("--no-html", no_html, "write no HTML report");
  app.add_flag("--no-text", no_text, "write nothing to stderr when there is a finding");
}

void ProgramOptions::declare(CLI::App& app) {
  app.prefix_command();
  set_usage(app, "[options] -- program [arguments]");
  declare_library(app);
  app.add_option("--error-exitcode", error_exitcode,
                 "exit with this code when any process of the program's tree had a finding [0: the program's own code]")
      ->type_name("N")
      ->check(CLI::Range(0, 255));
}

std::string LibraryOptions::text() const {
  std::string all;
  const auto add = [&](const std::string& next) { all += fmt::format("{}{}", all.empty() ? "" : ":", next); };
  if (const char* given = std::getenv("DEVTRACE_OPTIONS"); given && *given) add(given);
  make_log_folder(log_path);
  if (!log_path.empty()) add(item("log_path", log_path));
  if (!suppressions.empty()) add(item("suppressions", readable_suppressions(suppressions)));
  if (no_html) add("html=0");
  if (no_text) add("text=0");
  for (const std::string& each : options) {
    const size_t equals = each.find('=');
    if (equals == each.npos || equals == 0)
      throw Failure(kBadUsage, fmt::format("--option {}: not of the form KEY=VALUE", each));
    add(item(each.substr(0, equals), each.substr(equals + 1)));
  }
  return all;
}

Launch ProgramOptions::launch(const CLI::App& app, const AfterDashes& after_dashes) const {
  return launch(program_of(app, after_dashes));
}

Launch ProgramOptions::launch(std::vector<std::string> program) const {
  Launch launch;
  launch.program = std::move(program);
  launch.error_exitcode = error_exitcode;
  if (const std::string options = text(); !options.empty())
    launch.environment.emplace_back("DEVTRACE_OPTIONS", options);
  return launch;
}

}  // namespace devtrace::cli

#include "cli/check/last_change.h"

#include <charconv>
#include <string_view>

#include "common/format.h"
#include "common/text.h"
#include "process/output.h"
#include "report/log/suppressions.h"

namespace devtrace::cli {
namespace {

using report::check::Fault;
using report::check::LastChange;

constexpr int kPatience = 10'000;  // milliseconds

// What the program had in the fault's line; empty where the log does not say it.
std::string source_of(const Fault& fault) {
  const report::Json finding = fault.finding();
  for (const char* stack : {"python", "native"})
    for (const report::Json& frame : report::array(finding, stack))
      if (report::integer(frame, "line") == fault.line && report::string(frame, "function") == fault.function) {
        const std::string_view source = report::string(frame, "source");
        return std::string(trimmed(source.substr(0, source.find('\n'))));
      }
  return {};
}

// `git blame --porcelain` of one line: the commit, a field a line, and after a tab the text.
struct Blamed {
  LastChange change;
  std::string text;
};

Blamed read(std::string_view output) {
  Blamed out;
  out.change.commit = output.substr(0, output.find(' '));
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    const auto field = [&](std::string_view name) { return line.starts_with(name) ? line.substr(name.size()) : ""; };
    if (line.starts_with('\t')) out.text = line.substr(1);
    if (const auto author = field("author "); !author.empty()) out.change.author = author;
    if (const auto summary = field("summary "); !summary.empty()) out.change.summary = summary;
    if (const auto time = field("author-time "); !time.empty()) {
      long long seconds = 0;
      std::from_chars(time.data(), time.data() + time.size(), seconds);
      out.change.date = report::date_of(static_cast<double>(seconds));
    }
  }
  return out;
}

}  // namespace

std::optional<LastChange> last_change(const Fault& fault, const report::check::Repository& repository) {
  if (!fault.in_repository || fault.line <= 0) return std::nullopt;
  // Nothing is asked of a person or of a network.
  process::Program git{{"git", "blame", "--porcelain", "-L", fmt::format("{},+1", fault.line), "--", fault.file},
                       process::own_environment()};
  git.environment["GIT_NO_LAZY_FETCH"] = "1";
  git.environment["GIT_OPTIONAL_LOCKS"] = "0";
  git.environment["GIT_TERMINAL_PROMPT"] = "0";
  const process::Ended ended = process::output_of(git, repository.root().string(), kPatience, false);
  if (!ended.started || ended.status != 0) return std::nullopt;
  Blamed blamed = read(ended.output);
  if (const std::string source = source_of(fault); blamed.text.find(source) == std::string::npos) return std::nullopt;
  LastChange& change = blamed.change;
  if (change.commit.find_first_not_of('0') == std::string::npos) return LastChange{};
  change.commit = change.commit.substr(0, 12);
  for (std::string* text : {&change.author, &change.summary}) *text = shortened(printable(*text), 120);
  if (change.author.empty()) return std::nullopt;
  return std::move(change);
}

}  // namespace devtrace::cli

#include "tracker/findings/publish.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "report/report.h"
#include "tracker/base/files.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/spinlock.h"
#include "tracker/log/log.h"

namespace devtrace::findings::publish {
namespace {

using report::Json;

SpinLock stderr_lock;  // reports of several threads do not mix

bool colour_wanted() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && !std::getenv("NO_COLOR") && term && std::strcmp(term, "dumb") != 0;
}

// One byte a finding that is a fault, for `devtrace run`, which waits for the whole process tree.
void tally() {
  if (const char* path = std::getenv("DEVTRACE_TALLY"); path && *path) files::append(path, "f");
}

void write(Json record) {
  log::write(record);
  if (log::has_html()) log::write_html(report::html_record(report::json_line(record)));
}

}  // namespace

void finding(const Json& record, Severity severity) {
  log::write(record);
  if (severity == Severity::suppressed) return;
  if (options().html) log::write_html(report::html_finding(log::process(), record));
  if (severity == Severity::fault) tally();
}

void count(const Occurrences::Count& count) {
  write({{"record", "count"}, {"id", count.id}, {"fingerprint", count.fingerprint}, {"count", count.count}});
}

void end(const Totals& totals, uint64_t dropped, int exit_code) {
  Json record{{"record", "end"}, {"time", process_start::now()}, {"findings", totals.all()}};
  if (totals.notes() > 0) record["notes"] = totals.notes();
  if (totals.suppressed() > 0) record["suppressed"] = totals.suppressed();
  record["dropped"] = dropped;
  if (exit_code >= 0) record["exit"] = exit_code;
  write(std::move(record));
}

void print_report(const Json& record) {
  const std::string text =
      report::text(log::process(), record, colour_wanted(), log::has_html() ? log::html_path() : "");
  const std::lock_guard hold(stderr_lock);
  files::write_stderr(text);
}

void before_fork() {
  stderr_lock.lock();
}

void after_fork() {
  stderr_lock.unlock();
}

}  // namespace devtrace::findings::publish

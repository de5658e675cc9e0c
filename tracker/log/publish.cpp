#include "tracker/log/publish.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "finding/json.h"
#include "report/html/html.h"
#include "report/text/text.h"
#include "tracker/base/files.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/spinlock.h"
#include "tracker/log/log.h"

namespace devtrace::log::publish {
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

void write_both(Json record) {
  write(record);
  if (has_html()) write_html(report::html_record(report::json_line(record)));
}

}  // namespace

std::string finding(const finding::Finding& finding) {
  const Json record = finding::to_json(finding);
  write(record);
  if (finding.suppressed.known()) return {};
  if (options().html) write_html(report::html_finding(process(), record));
  if (!finding.is_note()) tally();
  if (!options().text) return {};
  return report::text(process(), record, colour_wanted(), {.log = path(), .html = has_html() ? html_path() : ""});
}

void count(int id, const std::string& fingerprint, uint64_t count) {
  write_both({{"record", "count"}, {"id", id}, {"fingerprint", fingerprint}, {"count", count}});
}

void write_end(const Totals& totals, int exit_code) {
  Json record{{"record", "end"}, {"time", process_start::now()}, {"findings", totals.all}};
  if (totals.notes > 0) record["notes"] = totals.notes;
  if (totals.suppressed > 0) record["suppressed"] = totals.suppressed;
  record["dropped"] = totals.dropped;
  if (exit_code >= 0) record["exit"] = exit_code;
  write_both(std::move(record));
}

void print(const std::string& text) {
  if (text.empty()) return;
  const std::lock_guard hold(stderr_lock);
  files::write_stderr(text);
}

void before_fork() {
  stderr_lock.lock();
}

void after_fork() {
  stderr_lock.unlock();
}

}  // namespace devtrace::log::publish

#include "tracker/findings/severity.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "common/format.h"
#include "report/log/suppressions.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/log/log.h"

namespace devtrace::findings {
namespace {

// Read when the first finding needs them; complaints go to stderr then. Leaked: hooks run after static destructors.
const report::Suppressions& suppressions() {
  static const report::Suppressions& read = *[] {
    auto* all = new report::Suppressions;
    std::string path = options().suppressions;
    if (path.empty()) return all;
    if (path[0] != '/') path = log::working_directory() + "/" + path;
    errno = 0;
    if (auto found = report::read_suppressions(path))
      *all = std::move(*found);
    else
      warn("suppressions=" + options().suppressions + ": cannot be read: " + std::strerror(errno) +
           "; nothing is suppressed");
    for (const std::string& complaint : all->complaints) warn(complaint + "; the line was left out");
    const std::string today = report::date_of(process_start::now());
    for (const report::Suppression& each : all->entries)
      if (each.expired(today))
        warn(all->path + ":" + std::to_string(each.line) + ": expired on " + each.expires + ": it suppresses no more");
    return all;
  }();
  return read;
}

}  // namespace

Severity classify(finding::Finding& finding) try {
  if (finding.is_note()) return Severity::note;
  finding.severity = "error";
  const report::Suppressions& all = suppressions();
  if (all.entries.empty()) return Severity::fault;
  const auto by = all.covering(finding, report::date_of(process_start::now()));
  if (!by) return Severity::fault;
  const report::Suppression& entry = all.entries[*by];
  if (verbose()) explain("finding %s: suppressed by %s:%d", finding.fingerprint.c_str(), all.path.c_str(), entry.line);
  finding.suppressed = {all.path, entry.line, entry.reason};
  return Severity::suppressed;
} catch (...) {
  return Severity::fault;
}

}  // namespace devtrace::findings

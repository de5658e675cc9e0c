#include "common/format.h"
#include "common/text.h"
#include "report/check/outputs.h"
#include "report/phrasing/phrasing.h"
#include "report/text/first_findings.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kLongestMessage = 4000;  // of a message: GitHub shows no more than a few lines of it

// As GitHub's runner reads them. A raw line feed would end the command, and what follows could be another one.
std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string paragraph(const Fault& fault, const Collection& logs) {
  const Json finding = fault.finding();
  const Json& cause = object(finding, "cause");
  const auto cwd = string(logs.processes()[fault.by_process.front().process].record, "cwd");
  std::string out = fault.headline;
  if (const std::string operands = who_is_where(finding); !operands.empty()) out += ": " + shortened(operands, 1000);
  if (const auto because = string(cause, "because"); !because.empty()) out += fmt::format(". Why: {}", because);
  if (const auto fix = string(cause, "fix"); !fix.empty())
    out += fmt::format(" Fix{}{}: {}", string(cause, "file").empty() ? "" : " at " + location(cause, cwd),
                       repairs(cause).empty() ? "" : fmt::format(" ({})", repairs(cause)), fix);
  for (const Json& edit : array(cause, "also"))
    out += fmt::format(" And at {}: {}", location(edit, cwd), string(edit, "fix"));
  return printable(out, true);
}

std::string github(const Result& result) {
  std::string out;
  size_t shown = 0;
  for (const ClassifiedFault& each : result.judged.faults) {
    const Fault& fault = *each.fault;
    const bool note = each.status == Status::note;
    if ((each.status != Status::added && !note) || ++shown > kMostShown) continue;
    std::string where;
    if (!fault.file.empty()) where = fmt::format("file={},", escaped(printable(fault.file), true));
    if (fault.line > 0) where += fmt::format("line={},", fault.line);
    const std::string title = fmt::format("devtrace: {}{}", fault.kind.empty() ? "finding" : shortened(fault.kind, 100),
                                          fault.function.empty() ? "" : " in " + shortened(fault.function, 100));
    out += fmt::format("::{} {}title={}::{}\n", note ? "notice" : "error", where, escaped(printable(title), true),
                       escaped(shortened(paragraph(fault, result.logs), kLongestMessage), false));
  }
  return out;
}

}  // namespace devtrace::report::check

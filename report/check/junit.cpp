#include <iterator>

#include "common/format.h"
#include "common/text.h"
#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "report/html/html.h"
#include "report/text/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::check {
namespace {

// XML 1.0 has no form at all for most control characters, nor for U+FFFE and U+FFFF.
std::string xml(std::string_view raw) {
  std::string text = printable(raw, true), out;
  for (size_t at = 0; (at = text.find("\xEF\xBF", at)) != text.npos; at += 3)
    if (at + 2 < text.size() && (text[at + 2] == '\xBE' || text[at + 2] == '\xBF')) text[at + 2] = '\xBD';
  for (const char c : html_escaped(text)) {
    if (c == '\n')
      out += "&#10;";
    else
      out += c;
  }
  return out;
}

std::string title_of(const Fault& fault) {
  std::string name = fault.kind.empty() ? "finding" : fault.kind;
  if (!fault.operation.empty()) name += ' ' + shortened(fault.operation, 100);
  if (!fault.function.empty()) name += " in " + shortened(fault.function, 100);
  return fmt::format("{} [{}]", name, fault.fingerprint);
}

class Suite {
 public:
  explicit Suite(const Result& result) : result_(result) {}

  std::string write() {
    for (const ClassifiedFault& each : result_.judged.faults) fault(each);
    for (const Json& entry : result_.judged.gone) gone(entry);
    for (const auto& each : result_.judged.traffic) {
      if (!each.fails) continue;
      begin("traffic " + each.site, "traffic", "", 0);
      const std::string what = fmt::format("{} in {}, was {} in {}", size(each.now.bytes), copies(each.now.copies),
                                           size(each.before.bytes), copies(each.before.copies));
      failure("traffic", what, what);
    }
    if (result_.judged.placement_fails) {
      for (const Displaced& each : result_.judged.placement.moved) {
        begin("placement of " + displaced_words(each), "placement", "", 0);
        const std::string what = fmt::format("on {}, was on {}", device_words(each.now), device_words(each.before));
        failure("placement", what, what);
      }
    }
    for (const std::string& problem : result_.judged.problems) {
      begin("not judged: " + problem, "devtrace.logs", "", 0);
      ++errors_;
      out("      <error type=\"not judged\" message=\"{}\"/>\n    </testcase>\n", xml(problem));
    }
    if (tests_ == 0) {
      begin("no finding", "devtrace", "", 0);
      body_ += "    </testcase>\n";
    }
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"devtrace\" tests=\"{0}\" failures=\"{1}\" errors=\"{2}\" skipped=\"{3}\">\n"
        "  <testsuite name=\"devtrace\" tests=\"{0}\" failures=\"{1}\" errors=\"{2}\" skipped=\"{3}\">\n"
        "{4}  </testsuite>\n</testsuites>\n",
        tests_, failures_, errors_, skipped_, body_);
  }

 private:
  template <typename... Args>
  void out(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }

  void begin(std::string_view name, std::string_view group, std::string_view file, int64_t line) {
    ++tests_;
    out("    <testcase name=\"{}\" classname=\"{}\"", xml(name), xml(group));
    if (!file.empty()) out(" file=\"{}\"", xml(file));
    if (line > 0) out(" line=\"{}\"", line);
    body_ += ">\n";
  }

  void failure(std::string_view type, std::string_view message, std::string_view text) {
    ++failures_;
    out("      <failure type=\"{}\" message=\"{}\">{}</failure>\n    </testcase>\n", xml(type), xml(message),
        xml(text));
  }

  void skipped(std::string_view message) {
    ++skipped_;
    out("      <skipped message=\"{}\"/>\n    </testcase>\n", xml(message));
  }

  void fault(const ClassifiedFault& judged) {
    const Fault& fault = *judged.fault;
    begin(title_of(fault), fault.file.empty() ? "devtrace" : fault.file, fault.file, fault.line);
    if (judged.status == Status::added) {
      const Process& by = result_.logs.processes()[fault.by_process.front().process];
      const std::string where = fault.file.empty() ? "" : fmt::format("{}:{}: ", fault.file, fault.line);
      failure(fault.kind, where + fault.headline,
              fmt::format("{}  seen by {}\n", text(by.record, fault.finding(), false, {}),
                          occurrences(fault, result_.logs)));
    } else {
      skipped(fmt::format("{}{}{}: {}", word(judged.status), judged.reason.empty() ? "" : ": ", judged.reason,
                          fault.summary));
    }
  }

  void gone(const Json& entry) {
    const std::string_view file = string(entry, "file");
    begin(fmt::format("{} {} in {} [{}]", string(entry, "kind"), string(entry, "operation"), string(entry, "function"),
                      string(entry, "fingerprint")),
          file.empty() ? "devtrace" : file, file, 0);
    const bool all = result_.judged.problems.empty();
    if (!all) {
      skipped("not seen, and not all logs could be read");
      return;
    }
    out("      <system-out>gone: it is in the baseline and was not seen</system-out>\n    </testcase>\n");
  }

  const Result& result_;
  std::string body_;
  size_t tests_ = 0, failures_ = 0, errors_ = 0, skipped_ = 0;
};

}  // namespace

std::string junit(const Result& result) {
  return Suite(result).write();
}

}  // namespace devtrace::report::check

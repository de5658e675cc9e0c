#include "common/format.h"
#include "common/text.h"
#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "report/phrasing/line_writer.h"
#include "report/phrasing/phrasing.h"
#include "report/text/markdown.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kMostRows = 10;  // GitHub's job page takes a mebibyte
constexpr size_t kRows = 100;

class Summary : Lines {
 public:
  explicit Summary(const Result& result) : result_(result) {}

  std::string write() {
    const Comparison& judged = result_.judged;
    const int code = judged.exit_code();
    line("## devtrace: {}\n", code == 0 ? "nothing new" : code == 1 ? "something new" : "could not judge");
    line("{}, in {} logs of {} processes.\n", judged.tally(), result_.logs.logs(), result_.logs.processes().size());
    if (!judged.problems.empty()) {
      line("**Not everything could be judged:**\n");
      for (const std::string& problem : judged.problems) line("- {}", code_span(problem));
      line("");
    }
    table();
    traffic();
    placement();
    size_t shown = 0;
    for (const ClassifiedFault& each : judged.faults) {
      if (each.status != Status::added || ++shown > kMostRows) continue;
      const Process& by = result_.logs.processes()[each.fault->by_process.front().process];
      out_ += '\n' + markdown(by.record, each.fault->finding());
    }
    if (shown > kMostRows) line("\nAnd {} more new findings.", shown - kMostRows);
    return std::move(out_);
  }

 private:
  static std::string cell(std::string_view raw) { return markdown_cell(markdown_code(shortened(printable(raw), 200))); }
  static std::string code_span(std::string_view raw) { return markdown_code(shortened(printable(raw), 400)); }

  void row(std::string_view status, std::string_view kind, std::string_view operation, const std::string& where,
           std::string_view by) {
    line("| {} | {} | {} | {} | {} |", status, cell(kind), cell(operation), cell(where), cell(by));
  }

  void table() {
    const Comparison& judged = result_.judged;
    if (judged.faults.empty() && judged.gone.empty()) return;
    line("| | kind | operation | where | seen by |\n|---|---|---|---|---|");
    size_t shown = 0;
    for (const ClassifiedFault& each : judged.faults) {
      if (++shown > kRows) continue;
      const Fault& fault = *each.fault;
      row(each.status == Status::added ? "**new**" : word(each.status), fault.kind, fault.operation,
          fault.file.empty() ? "" : fmt::format("{}:{}", fault.file, fault.line), occurrences(fault, result_.logs));
    }
    for (const Json& gone : judged.gone) {
      if (++shown > kRows) continue;
      row(judged.problems.empty() ? "gone" : "not seen", string(gone, "kind"), string(gone, "operation"),
          std::string(string(gone, "file")), "");
    }
    if (shown > kRows) line("\nAnd {} more.", shown - kRows);
    line("");
  }

  void traffic() {
    const auto& all = result_.judged.traffic;
    if (all.empty()) return;
    line("| traffic | now | before |\n|---|---:|---:|");
    for (size_t index = 0; index < std::min<size_t>(all.size(), 20); ++index)
      line("| {}{} | {} | {} |", all[index].fails ? "**more** " : "", cell(all[index].site), size(all[index].now.bytes),
           size(all[index].before.bytes));
    line("");
  }

  void placement() {
    const auto& all = result_.judged.placement.moved;
    if (all.empty()) return;
    line("| moved | now | before |\n|---|---|---|");
    for (size_t index = 0; index < std::min<size_t>(all.size(), 20); ++index)
      line("| {}{} | {} | {} |", result_.judged.placement_fails ? "**moved** " : "", cell(displaced_words(all[index])),
           cell(device_words(all[index].now)), cell(device_words(all[index].before)));
    if (all.size() > 20) line("\nAnd {} more.", all.size() - 20);
    line("");
  }

  const Result& result_;
};

}  // namespace

std::string check_markdown(const Result& result) {
  return Summary(result).write();
}

}  // namespace devtrace::report::check

#include "common/text.h"

#include "common/format.h"
#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "report/phrasing/line_writer.h"
#include "report/phrasing/phrasing.h"
#include "report/text/text.h"
#include "report/traffic/traffic.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kMostTold = 20;  // new findings that are told in full; --junit and --sarif have all
constexpr size_t kPlacements = 20;
constexpr size_t kLines = 200;  // others of one status

class Text : Lines {
 public:
  Text(const Result& result, bool colour) : result_(result), colour_(colour) {}

  std::string write() {
    const Comparison& judged = result_.judged;
    faults(Status::added);
    faults(Status::known);
    faults(Status::suppressed);
    faults(Status::note);
    gone();
    traffic();
    placement();
    suppressions();
    size_t hosts = 0;
    std::set<std::string_view> names;
    for (const Process& each : result_.logs.processes()) hosts += names.insert(each.host()).second;
    line("{}{}{}: {} log{} of {} process{} on {} host{}", strong(), judged.tally(), off(), result_.logs.logs(),
         result_.logs.logs() == 1 ? "" : "s", result_.logs.processes().size(),
         result_.logs.processes().size() == 1 ? "" : "es", hosts, hosts == 1 ? "" : "s");
    return std::move(out_);
  }

 private:
  const char* strong() const { return colour_ ? "\033[1m" : ""; }
  const char* off() const { return colour_ ? "\033[0m" : ""; }

  void seen(const Fault& fault) {
    line("  seen by {}", occurrences(fault, result_.logs));
    if (const std::string first = who_was_first(fault, result_.logs); !first.empty()) line("  {}", first);
  }

  void faults(Status status) {
    size_t shown = 0, left = 0;
    for (const ClassifiedFault& each : result_.judged.faults) {
      if (each.status != status) continue;
      const Fault& fault = *each.fault;
      ++shown;
      if (status == Status::added && shown <= kMostTold) {
        const Process& by = result_.logs.processes()[fault.by_process.front().process];
        line("{}new{} {}", strong(), off(), fault.fingerprint);
        out_ += text(by.record, fault.finding(), colour_, {});
        seen(fault);
        out_ += '\n';
      } else if (shown <= kLines) {
        line("{}{}{} {} {}{}", strong(), word(status), off(), fault.fingerprint,
             shortened(printable(fault.summary), 200),
             each.reason.empty() ? "" : fmt::format(" ({})", shortened(printable(each.reason), 120)));
        seen(fault);
      } else {
        ++left;
      }
    }
    if (left > 0) line("… and {} more {}", left, word(status));
  }

  void gone() {
    const bool all = result_.judged.problems.empty();
    size_t shown = 0;
    for (const Json& entry : result_.judged.gone) {
      if (++shown > kLines) break;
      line("{}{}{} {} {}", strong(), all ? "gone" : "not seen", off(), printable(string(entry, "fingerprint")),
           shortened(printable(string(entry, "summary")), 200));
    }
    if (shown > kLines) line("… and {} more", result_.judged.gone.size() - kLines);
  }

  void traffic() {
    size_t shown = 0;
    for (const auto& each : result_.judged.traffic) {
      if (++shown > 20) break;
      const bool more = each.now.bytes > each.before.bytes;
      line("{}{} traffic{} {}: {} in {}, was {} in {}", each.fails ? strong() : "", more ? "more" : "less",
           each.fails ? off() : "", shortened(printable(each.site), 200), size(each.now.bytes), copies(each.now.copies),
           size(each.before.bytes), copies(each.before.copies));
    }
    if (shown > 20) line("… and {} more call sites", result_.judged.traffic.size() - 20);
  }

  void placement() {
    const PlacementChanges& all = result_.judged.placement;
    const bool fails = result_.judged.placement_fails;
    list(all.moved, [&](const Displaced& each) {
      line("{}moved{} {}: on {}, was on {}", fails ? strong() : "", fails ? off() : "", displaced_words(each),
           device_words(each.now), device_words(each.before));
    });
    list(all.added,
         [&](const Displaced& each) { line("placed {}: on {}", displaced_words(each), device_words(each.now)); });
    list(all.gone, [&](const Displaced& each) {
      line("no longer seen {}: was on {}", displaced_words(each), device_words(each.before));
    });
  }

  template <class Write>
  void list(const std::vector<Displaced>& list, const Write& write) {
    for (size_t index = 0; index < std::min(list.size(), kPlacements); ++index) write(list[index]);
    if (list.size() > kPlacements) line("… and {} more", list.size() - kPlacements);
  }

  void suppressions() {
    for (const Suppression* each : result_.judged.expired)
      line("suppression of line {} expired on {}: it holds no longer{}{}", each->line, each->expires,
           each->reason.empty() ? "" : ": ", shortened(printable(each->reason), 120));
    for (const Suppression* each : result_.judged.unused)
      line("suppression of line {} was not needed{}{}", each->line, each->reason.empty() ? "" : ": ",
           shortened(printable(each->reason), 120));
  }

  const Result& result_;
  bool colour_;
};

}  // namespace

std::string check_text(const Result& result, bool colour) {
  return Text(result, colour).write();
}

}  // namespace devtrace::report::check

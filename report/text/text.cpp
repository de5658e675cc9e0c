// The short report on stderr, in the sanitizers' manner. It is read over somebody's shoulder, in a terminal of 80 to
// 120 columns: it says what, where, whence and what to change, and leaves the rest to the HTML.
#include "report/text/text.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/log/suppressions.h"
#include "report/phrasing/line_writer.h"
#include "report/phrasing/phrasing.h"
#include "report/phrasing/verification.h"

namespace devtrace::report {
namespace {

constexpr size_t kNameColumns = 44;  // a module path is longer; its ends tell which it is
constexpr size_t kSourceColumns = 110;
constexpr size_t kOperands = 3;
constexpr size_t kLines = 25;
constexpr size_t kProseColumns = 100;
constexpr int kSourceLines = 3;
constexpr size_t kVerification = 800;
constexpr size_t kCallers = 4;

// Broken at blanks, so that no line but that of a longer word has more than `columns`.
std::string wrapped(std::string_view text, size_t columns, std::string_view indent) {
  std::string out;
  size_t used = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (used > 0 && used + 1 + length(word) > columns) {
      out.append("\n").append(indent);
      used = 0;
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += length(word);
  }
  return out;
}

// Escape codes, or nothing.
struct Palette {
  const char *error, *device, *quiet, *strong, *fix, *off;
};
constexpr Palette kColours = {"\033[1;31m", "\033[36m", "\033[2m", "\033[1m", "\033[32m", "\033[0m"};
constexpr Palette kPlain = {"", "", "", "", "", ""};

class Report : Lines {
 public:
  Report(const Json& process, const Json& finding, bool colour)
      : finding_(finding), cwd_(string(process, "cwd")), process_(process), ink_(colour ? kColours : kPlain) {}

  std::string write(const Files& files) {
    std::string whole = written(files);
    // Memory of a C++ program comes from one function, whoever calls it: only the callers tell operands apart.
    const History least = array(finding_, "python").empty() ? History::without_source : History::of_the_first;
    while (lines_of(whole) > kLines && history_ != least) {
      history_ = static_cast<History>(static_cast<int>(history_) + 1);
      whole = written(files);
    }
    for (edits_ = array(object(finding_, "cause"), "also").size(); lines_of(whole) > kLines && edits_ > 0;) {
      --edits_;
      whole = written(files);
    }
    return whole;
  }

 private:
  // What is told of how operands came to be where they are. A report of more than kLines lines is told with less, and
  // then with fewer of the further edits: what is left out is on the page.
  enum class History { whole, steps_of_the_first, without_source, of_the_first };

  static size_t lines_of(std::string_view text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  std::string written(const Files& files) {
    out_.clear();
    header();
    operands();
    failing_call();
    access();
    origins();
    device_choice();
    verdict();
    verification();
    out_ += '\n';
    if (!files.log.empty() && may_be_fixed())
      line("  {}next: devtrace fix {}{}", ink_.quiet, printable(shell_quoted(relative(files.log))), ink_.off);
    if (!files.html.empty()) line("  {}report: {}{}", ink_.quiet, printable(files.html), ink_.off);
    if (!is_note(finding_)) line("  {}suppress: {}{}", ink_.quiet, suppression_entry(process_, finding_), ink_.off);
    line("SUMMARY: devtrace: {}", shortened(printable(summary(process_, finding_)), 240));
    return out_;
  }

  // `devtrace fix` edits Python.
  bool may_be_fixed() const {
    return string(finding_, "kind") == "refused-op" && flag(user_frame_of(finding_), "project") &&
           !array(finding_, "python").empty();
  }

  std::string relative(const std::string& path) const {
    const bool below = !cwd_.empty() && path.starts_with(cwd_) && path[cwd_.size()] == '/';
    return below ? path.substr(cwd_.size() + 1) : path;
  }

  void header() {
    const auto pid = integer(process_, "pid");
    line("=={}==devtrace: {}{}:{} {}{}{}{}", pid ? std::to_string(*pid) : "?", ink_.error,
         printable(kind_name(finding_)), ink_.off, ink_.strong, shortened(printable(headline(finding_)), 200), ink_.off,
         flag(process_, "rehearsal") ? " (rehearsal: simulated devices)" : "");
  }

  std::string shown_name(const Json& operand) { return shortened(printable(name_of(operand)), kNameColumns); }

  // Columns as wide as the widest of what is in them.
  void operands() {
    std::vector<Json> all;
    for (const Json& operand : operands_and_sources(finding_)) {
      if (operand.is_object()) all.push_back(operand);
    }
    size_t widest = 0;
    for (const Json& operand : all) widest = std::max(widest, length(shown_name(operand)));
    size_t shown = 0;
    for (const Json& operand : all) {
      if (++shown > kOperands) {
        line("    {}and {} more{}", ink_.quiet, all.size() - kOperands, ink_.off);
        break;
      }
      const std::string name = shown_name(operand);
      const std::string role = shortened(printable(role_of(operand)), 60);
      line("    {}{}  {}{:<8}{}  {:<22}  {}{}{}", name, std::string(widest - length(name), ' '), ink_.device,
           printable(string(operand, "device")), ink_.off, shortened(printable(extent_of(operand)), 40), ink_.quiet,
           role, ink_.off);
    }
    if (all.empty()) {
      if (const auto message = string(finding_, "message"); !message.empty()) {
        line("    {}", shortened(printable(message), 300));
      }
    }
  }

  // Of a long statement the lines down to the frame's own.
  void source(const Json& frame, std::string_view indent) {
    const std::string code = dedented(string(frame, "source"));
    const int64_t own = integer(frame, "line").value_or(0), first = integer(frame, "source_line").value_or(own);
    const int64_t from = std::clamp<int64_t>(own - first - kSourceLines + 1, 0, std::ranges::count(code, '\n'));
    std::string_view rest = code;
    for (int64_t shown = -from; !rest.empty(); ++shown) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view text = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (text.empty() || shown < -1) continue;
      if (shown == -1 || shown == kSourceLines) line("{}…", indent);
      if (shown == kSourceLines) break;
      if (shown >= 0) line("{}{}", indent, shortened(printable(text), kSourceColumns));
    }
  }

  void failing_call() {
    const Json& frames = array(finding_, "python");
    const Json& frame = user_frame_of(finding_);
    if (frame.empty()) {
      line("\n  {}at{} an unknown place: no Python frame could be read", ink_.strong, ink_.off);
      return;
    }
    line("\n  {}at{} {}", ink_.strong, ink_.off, printable(place(frame, cwd_)));
    source(frame, "        ");
    if (const auto hint = without_lines(frame); !hint.empty()) line("     {}{}{}", ink_.quiet, hint, ink_.off);
    if (!frames.empty() && &frame != &frames.front()) {
      const auto depth = static_cast<size_t>(&frame - &frames.front());
      line("     {}{} library frame{} further in: {}{}", ink_.quiet, depth, depth == 1 ? "" : "s",
           printable(place(frames.front(), cwd_)), ink_.off);
    }
  }

  // What the kernel did there, where a rehearsal has computed it.
  void access() {
    const Json& access = object(object(finding_, "launch"), "access");
    if (access.empty()) return;
    const Json& frame = object(access, "line");
    const std::string where = place(frame, cwd_);
    line("  {}kernel{} {}{}", ink_.strong, ink_.off, printable(access_in_words(access)),
         where.empty() ? "" : ", in " + printable(where));
    source(frame, "        ");
  }

  void origin(const std::string& name, std::string_view did, const Json& event, bool with_source = true) {
    const Json& frame = user_frame_of(event);
    const bool is_call = did == string(event, "call");  // what a rank does
    const std::string call = is_call ? "" : printable(string(event, "call"));
    const std::string_view where = is_call || !call.empty() ? "" : " at an unknown place";
    line("  {}{}{} {}{}{}{}", ink_.strong, name, ink_.off, did, call.empty() ? "" : " by ", call,
         frame.empty() ? std::string(where) : " in " + printable(place(frame, cwd_)));
    if (with_source) source(frame, "        ");
    callers(event, frame);
  }

  // The user's own frames, innermost first.
  std::vector<std::string> own_places(const Json& event) const {
    std::vector<std::string> places;
    for (const Json& frame : array(event, "native"))
      if (flag(frame, "project")) places.push_back(place(frame, cwd_));
    return places;
  }

  // A C++ program's memory mostly comes from a function of its own that allocates: who called it says more. Where that
  // is the same for several operands, as many callers as tell them apart.
  void callers(const Json& event, const Json& frame) {
    if (string(frame, "module").empty() || !flag(frame, "project")) return;
    const std::vector<std::string> places = own_places(event);
    size_t shown = 1;
    for (const Json& operand : array(finding_, "operands")) {
      for (const char* key : {"created", "moved"}) {
        const auto others = own_places(object(operand, key));
        const size_t common =
            std::mismatch(places.begin(), places.end(), others.begin(), others.end()).first - places.begin();
        if (common < places.size()) shown = std::max(shown, common);
      }
    }
    for (size_t i = 1; i <= std::min(shown, kCallers) && i < places.size(); ++i)
      line("     {}called by {}{}", ink_.quiet, printable(places[i]), ink_.off);
  }

  // One paragraph for those that came there in the same way: the parameters of a module.
  void origins() {
    const Json all = operands_and_sources(finding_);
    std::vector<bool> shown(all.size());
    bool first = true;
    for (size_t index = 0; index < std::min(all.size(), kOperands); ++index) {
      const Json& operand = all[index];
      if (shown[index] || !has_history(operand)) continue;
      if (!first && history_ == History::of_the_first) return;
      std::string names = shown_name(operand);
      bool several = false;
      for (size_t other = index + 1; other < std::min(all.size(), kOperands); ++other) {
        if (shown[other] || !same_history(operand, all[other])) continue;
        shown[other] = several = true;
        names += ", " + shown_name(all[other]);
      }
      if (first) out_ += '\n';
      origin_of(operand, names, several, first);
      first = false;
    }
  }

  static bool has_history(const Json& operand) {
    return !object(operand, "created").empty() || !object(operand, "moved").empty() || flag(operand, "before_attach");
  }

  // Told in the same lines of the reader's, though further in it may be two of a library's.
  bool same_history(const Json& one, const Json& other) const {
    if (made_by(one) != made_by(other) || flag(one, "before_attach") != flag(other, "before_attach") ||
        string(one, "device") != string(other, "device") || array(one, "lineage") != array(other, "lineage"))
      return false;
    return std::ranges::all_of(std::initializer_list<const char*>{"created", "moved"}, [&](const char* key) {
      const Json &mine = object(one, key), &theirs = object(other, key);
      return user_frame_of(mine) == user_frame_of(theirs) && own_places(mine) == own_places(theirs) &&
             string(mine, "from") == string(theirs, "from") && string(mine, "device") == string(theirs, "device");
    });
  }

  // Where it was last moved says why it is where it is; where it was made is then one line.
  void origin_of(const Json& operand, const std::string& names, bool several, bool first) {
    const bool with_source = first || history_ < History::without_source;
    const Json& created = object(operand, "created");
    const Json& moved = object(operand, "moved");
    if (!moved.empty()) {
      origin(names, fmt::format("moved {} → {}", printable(string(moved, "from")), printable(string(moved, "to"))),
             moved, with_source);
      const Json& frame = user_frame_of(created);
      if (!frame.empty())
        line("     {}created in {}{}", ink_.quiet, printable(place(frame, cwd_)), ink_.off);
      else if (flag(operand, "before_attach"))
        line("     {}created before devtrace was attached{}", ink_.quiet, ink_.off);
    } else if (created.empty()) {
      line("  {}{}{} {} there before devtrace was attached", ink_.strong, names, ink_.off, several ? "were" : "was");
    } else {
      const std::string device = printable(string(created, "device"));
      origin(names, device.empty() ? made_by(operand) : fmt::format("{} on {}", made_by(operand), device), created,
             with_source);
    }
    if (first || history_ == History::whole) passed(operand);
  }

  // The lines that it passed since; not those that were told.
  void passed(const Json& operand) {
    std::set<std::string> before;
    for (const char* const key : {"created", "moved"}) before.insert(place(user_frame_of(object(operand, key)), cwd_));
    for (const Json& step : array(operand, "lineage")) {
      const auto what = string(step, "what");
      const std::string_view words = what == "defaulted"     ? "its device left out in"
                                     : what == "given"       ? "its device given in"
                                     : what == "appended"    ? "its parts put into a list in"
                                     : what == "brought"     ? "from what was brought there in"
                                     : what == "constructed" ? "by a module constructed in"
                                     : what == "discarded"   ? "not moved, as the result is dropped, in"
                                     : what == "returned"    ? "returned to"
                                     : what == "assigned"    ? "assigned in"
                                     : what == "left"        ? "left where it was, beside what is moved, in"
                                     : what == "chosen"      ? "with the device chosen in"
                                                             : "";
      if (words.empty()) continue;
      const Json& frame = object(step, "line");
      const std::string where = place(frame, cwd_);
      if (!before.insert(where).second) continue;
      line("     {}{} {}{}", ink_.quiet, words, printable(where), ink_.off);
      source(frame, "        ");
    }
  }

  // Of a launch that is wrong only by where it runs.
  void device_choice() {
    const Json& choice = object(finding_, "device_choice");
    if (choice.empty() || string(finding_, "kind") != "wrong-current-device") return;
    const std::string device = printable(string(finding_, "current_device"));
    if (flag(choice, "by_default")) {
      line("  {}{}{} is current by default: this thread never chose a device", ink_.strong, device, ink_.off);
      return;
    }
    origin(device, "made the current device", choice);
  }

  void verdict() {
    const Json& cause = object(finding_, "cause");
    const auto because = string(cause, "because");
    if (because.empty()) return;
    line("\n  {}why{} {}", ink_.strong, ink_.off,
         wrapped(fmt::format("{} ({} confidence)", printable(because), printable(string(cause, "confidence"))),
                 kProseColumns, "      "));
    const auto fix = string(cause, "fix");
    const std::string place = printable(location(cause, cwd_));
    if (fix.empty() && !string(cause, "file").empty()) line("  {}change{} {}", ink_.strong, ink_.off, place);
    if (fix.empty()) return;
    const std::string_view what = repairs(cause);
    line("  {}fix{} {}{}", ink_.strong, ink_.off, place,
         what.empty() ? "" : fmt::format("{}({})", place.empty() ? "" : " ", what));
    code(fix);
    size_t shown = 0;
    std::string rest;
    for (const Json& edit : array(cause, "also")) {
      const std::string where = printable(location(edit, cwd_));
      if (shown++ < edits_) {
        line("      and {}", where);
        code(string(edit, "fix"));
      } else {
        rest += (rest.empty() ? "" : ", ") + where;
      }
    }
    if (!rest.empty()) line("      and {}: devtrace report shows what they should say", rest);
  }

  void code(std::string_view rest) {
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      line("        {}{}{}", ink_.fix, printable(rest.substr(0, end)), ink_.off);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  void verification() {
    const auto [label, words] = verification_of(finding_);
    if (words.empty()) return;
    line("  {}{}{} {}", ink_.strong, label, ink_.off,
         wrapped(shortened(printable(words), kVerification), kProseColumns, "      "));
  }

  const Json& finding_;
  std::string_view cwd_;
  const Json& process_;
  const Palette& ink_;
  History history_ = History::whole;
  size_t edits_ = SIZE_MAX;  // of the further ones how many are shown, and not only where they are
};

}  // namespace

std::string text(const Json& process, const Json& finding, bool colour, const Files& files) noexcept try {
  return Report(process, finding, colour).write(files);
} catch (...) {
  return "devtrace: a finding was made, and its report could not be written: out of memory\n";
}

}  // namespace devtrace::report

#include "report/phrasing/verification.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "common/format.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report {
namespace {

constexpr size_t kMostOpen = 6;

// What became of the program, by `outcome`.
struct Outcome {
  std::string_view name, label, words;
};
constexpr Outcome kOutcomes[] = {
    {"ran-to-end", "verified", "ran to its end in rehearsal"},
    {"further", "tried", "got further in rehearsal, to the next finding"},
    {"failed", "tried", "still failed in rehearsal"},
};

// "2 findings before, 0 after"; empty unless both are known.
std::string counts(const Json& verified) {
  const auto before = integer(verified, "findings_before"), after = integer(verified, "findings_after");
  if (!before || !after) return {};
  return fmt::format("{} finding{} before, {} after", *before, *before == 1 ? "" : "s", *after);
}

// What the change makes the program copy between devices; empty when nobody knows.
std::string moved(const Json& verified) {
  const auto step = integer(verified, "bytes_per_step"), all = integer(verified, "bytes");
  const auto more = [](int64_t count, std::string_view when) {
    const bool less = count < 0 && count != INT64_MIN;
    return fmt::format("{}{}{}{}", less ? "" : "+", bytes(less ? -count : count), less ? " less" : "", when);
  };
  if (step && *step != 0) return more(*step, " a step");
  if (all && *all != 0) return more(*all, step ? " in all, nothing more a step" : " in all");
  return step || all ? "nothing more is moved" : "";
}

// " Values of add were not computed."
std::string sentence(std::string_view text) {
  std::string out = fmt::format(" {}", text);
  const size_t end = std::min(text.find(' '), text.size());
  const bool word = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end),
                                [](unsigned char c) { return std::islower(c); });
  if (word) out[1] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[1])));
  if (std::string_view(".!?").find(out.back()) == std::string_view::npos) out += '.';
  return out;
}

std::string open_sentences(const Json& verified) {
  std::string out;
  size_t count = 0;
  for (const Json& each : array(verified, "open"))
    if (each.is_string() && !each.get_ref<const std::string&>().empty() && ++count <= kMostOpen)
      out += sentence(each.get_ref<const std::string&>());
  if (count > kMostOpen) out += fmt::format(" And {} more.", count - kMostOpen);
  return out;
}

}  // namespace

Verification verification_of(const Json& finding) {
  const Json& verified = object(object(finding, "cause"), "verified");
  for (const Outcome& outcome : kOutcomes) {
    if (outcome.name != string(verified, "outcome")) continue;
    std::string words = fmt::format("with this change the program {}", outcome.words);
    const std::string findings = counts(verified), copies = moved(verified);
    // The findings say what "further" is.
    if (!findings.empty()) words += outcome.name == "further" ? " (" + findings + ')' : "; " + findings;
    if (flag(verified, "same_output")) words += "; it prints what it would on one device";
    if (!copies.empty()) words += "; " + copies;
    if (const std::string open = open_sentences(verified); !open.empty()) words += '.' + open;
    return {std::string(outcome.label), words};
  }
  return {};
}

}  // namespace devtrace::report

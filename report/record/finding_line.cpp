#include "report/record/finding_line.h"

#include <algorithm>
#include <charconv>

namespace devtrace::report {
namespace {

class Rest {
 public:
  explicit Rest(std::string_view text) : text_(text) {}

  bool skip(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  template <typename Number>
  bool number(Number& into) {
    const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), into);
    if (fault != std::errc()) return false;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return true;
  }
  // Up to the quote that ends it, and that.
  bool word(std::string_view& into) {
    into = text_.substr(0, text_.find('"'));
    return into.find('\\') == into.npos && skip(into) && skip("\"");
  }
  bool empty() const { return text_.empty(); }

 private:
  std::string_view text_;
};

}  // namespace

bool is_fingerprint(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::optional<FindingLine> finding_line(std::string_view line) {
  constexpr size_t kLongestEnd = 64;
  FindingLine one;
  std::string_view severity;
  Rest begin(line);
  if (!begin.skip(R"({"record":"finding","id":)") || !begin.number(one.id) || !begin.skip(R"(,"kind":")") ||
      !begin.word(one.kind) || !begin.skip(R"(,"severity":")") || !begin.word(severity) ||
      !begin.skip(R"(,"fingerprint":")") || !begin.word(one.fingerprint) || !begin.skip(R"(,"time":)") ||
      !begin.number(one.time) || !is_fingerprint(one.fingerprint))
    return std::nullopt;
  one.note = severity == "note";
  constexpr std::string_view kCount = R"(,"count":)";
  const size_t at = line.rfind(kCount);
  if (at == line.npos || line.size() - at > kLongestEnd) return std::nullopt;
  Rest end(line.substr(at + kCount.size()));
  if (!end.number(one.count) || !end.skip(R"(,"pid":)") || !end.number(one.pid) || !end.skip("}") || !end.empty())
    return std::nullopt;
  one.whole = line;
  return one;
}

}  // namespace devtrace::report

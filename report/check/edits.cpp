#include "report/check/edits.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "common/python_scan.h"
#include "common/text.h"
#include "report/record/json_access.h"

namespace devtrace::report::check {
namespace {

namespace fs = std::filesystem;
using TextLines = std::vector<std::string>;

// As editors count: what lies beyond U+FFFF is two.
size_t utf16_length(std::string_view text) {
  const auto beyond = [](char c) { return static_cast<unsigned char>(c) >= 0xF0; };
  return length(text) + static_cast<size_t>(std::count_if(text.begin(), text.end(), beyond));
}

constexpr uintmax_t kLargestFile = 8u << 20;
constexpr int kDeepest = 64;

TextLines split(std::string_view text) {
  TextLines lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TextLines lines_of(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kLargestFile) return {};
  std::ifstream in(file, std::ios::binary);
  TextLines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

// What the finding says stands at a line: of statements all their lines, of what stands around one a line.
class Seen {
 public:
  Seen(const Json& finding, std::string_view file, int64_t line) : file_(file), line_(line) { visit(finding, 0); }

  // How many lines the statement has in that file; 0 where another one stands there, or it is not known how far it
  // goes.
  size_t length_in(const TextLines& lines) const {
    for (const auto& known : {statements_, around_}) {
      std::set<size_t> lengths;
      for (const TextLines& each : known)
        if (stands_in(lines, each)) lengths.insert(each.size());
      if (!lengths.empty()) return lengths.size() == 1 ? *lengths.begin() : 0;
    }
    return 0;
  }

 private:
  void visit(const Json& value, int depth) {
    if (depth > kDeepest) return;
    if (value.is_object() && string(value, "file") == file_) take(value);
    if (value.is_structured())
      for (const Json& each : value) visit(each, depth + 1);
  }

  void take(const Json& frame) {
    const auto source = string(frame, "source");
    // One that was cut is no statement. Of C++ brackets tell nothing here: quotes are others.
    if (integer(frame, "line") == line_ && !source.empty() && (!file_.ends_with(".py") || Scan(source).balanced))
      statements_.insert(split(source));
    const Json& around = object(frame, "around");
    const auto first = integer(around, "line");
    if (!first || *first < 1 || *first > line_) return;
    const TextLines lines = split(string(around, "text"));
    const auto index = static_cast<size_t>(line_ - *first);
    if (index < lines.size() && (!file_.ends_with(".py") || Scan(lines[index]).balanced))
      around_.insert({lines[index]});
  }

  bool stands_in(const TextLines& lines, const TextLines& statement) const {
    const auto first = static_cast<size_t>(line_ - 1);
    if (first + statement.size() > lines.size()) return false;
    return std::equal(statement.begin(), statement.end(), lines.begin() + static_cast<ptrdiff_t>(first),
                      [](const auto& seen, const auto& there) { return trimmed(seen) == trimmed(there); });
  }

  std::string_view file_;
  int64_t line_;
  std::set<TextLines> statements_, around_;
};

}  // namespace

std::vector<Replacement> replacements(const Json& finding, std::string_view cwd, Repository& repository) {
  std::vector<Replacement> all;
  const Json& cause = object(finding, "cause");
  std::vector<const Json*> edits{&cause};
  for (const Json& each : array(cause, "also")) edits.push_back(&each);
  for (const Json* edit : edits) {
    const auto fix = string(*edit, "fix"), file = string(*edit, "file");
    const int64_t line = integer(*edit, "line").value_or(0);
    const auto path = repository.path_of(file, cwd);
    if (fix.empty() || line <= 0 || !path) return {};
    const TextLines lines = lines_of(repository.root() / *path);
    const size_t length = Seen(finding, file, line).length_in(lines);
    if (length == 0) return {};

    const std::string_view first = lines[static_cast<size_t>(line - 1)];
    std::string_view last = lines[static_cast<size_t>(line - 1) + length - 1];
    const bool dos = last.ends_with('\r');
    if (dos) last.remove_suffix(1);
    const std::string_view indent = first.substr(0, indentation(first));
    Replacement one{*path, line, line + static_cast<int64_t>(length) - 1, indent.size() + 1, utf16_length(last) + 1,
                    {}};
    for (const std::string& each : split(fix)) {
      if (!one.text.empty()) one.text.append(dos ? "\r\n" : "\n").append(each.empty() ? "" : indent);
      one.text += each;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace devtrace::report::check

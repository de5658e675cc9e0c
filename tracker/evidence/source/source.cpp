#include "tracker/evidence/source/source.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include "common/python_scan.h"
#include "tracker/base/files.h"
#include "tracker/evidence/source/zip_file.h"
#include "tracker/python/gil/elements.h"

namespace devtrace::evidence {
namespace {

using python::Ref;

constexpr int kMostLines = 10, kMostOfAStatement = 20;
constexpr size_t kLongestLine = 300;
constexpr size_t kLongestFile = 8u << 20;  // a generated monster is not worth the time

// linecache.cache[file] is (size, mtime, lines, fullname), or a 1-tuple before it is first read.
std::vector<std::string> cached_lines(const python::Api& api, const std::string& file) {
  std::vector<std::string> lines;
  const Ref linecache = python::imported_module(api, "linecache");
  const Ref cache = python::attribute(api, linecache.get(), "cache");
  if (!cache || python::shape_of(api, cache.get()) != python::Shape::dict) return lines;
  const Ref entry = python::entry(api, cache.get(), file);
  if (!entry || python::shape_of(api, entry.get()) != python::Shape::tuple || api.PyTuple_Size(entry.get()) < 3)
    return lines;
  PyObject* list = api.PyTuple_GetItem(entry.get(), 2);
  if (python::shape_of(api, list) != python::Shape::list) return lines;
  for (python::Elements each(api, list); each.next();) lines.push_back(python::text(api, each.value()));
  return lines;
}

// Lines `first` to `last`, from 1, which must be there; each without line end.
std::string without_indentation(const std::vector<std::string>& lines, int first, int last, size_t longest) {
  size_t indentation = std::string::npos;
  for (int line = first; line <= last; ++line) {
    const size_t begin = lines[line - 1].find_first_not_of(" \t\r");
    if (begin != std::string::npos) indentation = std::min(indentation, begin);
  }
  std::string text;
  for (int line = first; line <= last; ++line) {
    const std::string& whole = lines[line - 1];
    if (line > first) text += '\n';
    if (indentation < whole.size()) text += whole.substr(indentation, longest);
  }
  return text;
}

void trim_line_ends(std::vector<std::string>& lines) {
  for (std::string& line : lines)
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
}

}  // namespace

std::vector<std::string> lines_on_disk(const std::string& file) {
  std::vector<std::string> lines;
  const auto split = [&](std::istream& stream) {
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    trim_line_ends(lines);
  };
  // Opening a named pipe out of which a program came would wait for its next writer for ever.
  if (!files::is_regular(file)) {
    if (const auto text = zip_member(file, kLongestFile)) {
      std::istringstream member(*text);
      split(member);
    }
    return lines;
  }
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (static_cast<size_t>(std::max<std::streamoff>(stream.tellg(), 0)) > kLongestFile) return lines;
  stream.seekg(0);
  split(stream);
  return lines;
}

finding::Around around(const std::vector<std::string>& lines, int first, int last, Margin margin) {
  const int count = static_cast<int>(lines.size());
  if (first < 1 || first > count) return {};
  const int from = std::max(1, first - margin.before);
  const int to = std::min(count, std::clamp(last, first, first + kMostLines - 1) + margin.after);
  return {from, without_indentation(lines, from, to, kLongestLine)};
}

Source::Source(const python::Api& api, const std::string& file) {
  if (file.empty()) return;
  lines_ = cached_lines(api, file);
  if (lines_.empty() && file[0] != '<') lines_ = lines_on_disk(file);
  trim_line_ends(lines_);
}

// What may begin or end a literal, a comment or a bracket, or goes on in the next line.
constexpr auto kSigns = [] {
  std::array<bool, 256> signs{};
  for (const char sign : std::string_view("\\\"'#()[]{}")) signs[static_cast<unsigned char>(sign)] = true;
  return signs;
}();

// Statements that share a line are one; so are a compound statement's header and what stands on its line. Not by a Scan
// of the whole file: a line that is no Python, as a notebook's commands are, would hide all below it.
const std::vector<int>& Source::statements() const {
  if (statements_.size() == lines_.size()) return statements_;
  statements_.clear();
  int depth = 0, first = 0;
  std::string_view literal;  // the quotes that end it
  bool goes_on = false;
  for (size_t number = 0; number < lines_.size(); ++number) {
    const std::string_view line = lines_[number];
    if (!goes_on) first = static_cast<int>(number) + 1;
    statements_.push_back(first);
    goes_on = false;
    for (size_t at = 0; at < line.size(); ++at) {
      const char c = line[at];
      if (!kSigns[static_cast<unsigned char>(c)]) continue;
      if (c == '\\') {
        goes_on = ++at >= line.size();
      } else if (!literal.empty()) {
        if (!line.substr(at).starts_with(literal)) continue;
        at += literal.size() - 1;
        literal = {};
      } else if (c == '"' || c == '\'') {
        const std::string_view quotes = c == '"' ? "\"\"\"" : "\'\'\'";
        literal = line.substr(at).starts_with(quotes) ? quotes : quotes.substr(2);
        at += literal.size() - 1;
      } else if (c == '#') {
        break;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if (c == ')' || c == ']' || c == '}') {
        --depth;
      }
    }
    if (literal.size() == 1 && !goes_on) literal = {};  // a line that is no Python
    depth = std::max(depth, 0);
    goes_on = goes_on || depth > 0 || !literal.empty();
  }
  return statements_;
}

Region Source::closed(Region region) const {
  const int last = static_cast<int>(lines_.size());
  if (region.end_line >= region.line || region.line < 1 || region.line > last) return region;
  const std::vector<int>& first = statements();
  for (region.end_line = region.line; region.end_line < std::min(last, region.line + kMostLines - 1); ++region.end_line)
    if (first[region.end_line] != first[region.line - 1]) break;
  return region;
}

// The statement's region, or as much of it as is shown.
Region Source::shown(const Region& given) const {
  Region region = closed(given);
  const int count = static_cast<int>(lines_.size());
  region.end_line = std::min(region.end_line, count);
  if (region.line < 1 || region.end_line < region.line) return given;
  const std::vector<int>& first = statements();
  int end = region.end_line;
  while (end < count && first[end] == first[region.end_line - 1]) ++end;
  if (end - first[region.line - 1] < kMostOfAStatement) return {first[region.line - 1], end};
  region.end_line = std::min(region.end_line, region.line + kMostLines - 1);
  return region;
}

std::string Source::lines(const Region& given) const {
  const Region region = shown(given);
  if (region.line < 1 || region.end_line < region.line || region.end_line > static_cast<int>(lines_.size())) return {};
  return without_indentation(lines_, region.line, region.end_line, std::string::npos);
}

finding::Around Source::around(const Region& given, Margin margin) const {
  const Region region = closed(given);
  return evidence::around(lines_, region.line, region.end_line, margin);
}

std::string Source::text(const Region& given) const {
  const Region region = closed(given);
  const int last = std::min(region.end_line, static_cast<int>(lines_.size()));
  if (region.line < 1 || last < region.line) return {};
  std::string text;
  for (int line = region.line; line <= last; ++line) {
    const std::string& whole = lines_[line - 1];
    const size_t begin = line == region.line && region.column >= 0 ? std::min<size_t>(region.column, whole.size()) : 0;
    const size_t end = line == region.end_line && region.end_column >= 0
                           ? std::min<size_t>(region.end_column, whole.size())
                           : whole.size();
    text += whole.substr(begin, end > begin ? end - begin : 0) + '\n';
  }
  return text;
}

Region Source::with_receiver(const Region& region) const {
  if (before(region).empty() || before(region).back() != '.') return region;
  const int first = statements()[region.line - 1];
  std::string text;
  for (int line = first; line < region.line; ++line) text += lines_[line - 1] + '\n';
  text += before(region);
  const Scan scan(text);
  const auto skip_blanks = [&](size_t at) {
    while (at > 0 && std::string_view(" \t\n\\").find(text[at - 1]) != std::string_view::npos) --at;
    return at;
  };
  const auto ends_primary = [](char c) { return word_char(c) || c == ')' || c == ']'; };
  size_t at = text.size();
  while (at > 0 && text[at - 1] == '.') {
    at = skip_blanks(at - 1);
    if (at == 0 || !scan.code[at - 1] || !ends_primary(text[at - 1])) return region;
    // Calls and indices, and behind them a name or what stands in brackets.
    for (bool bracket = true; bracket && at > 0 && ends_primary(text[at - 1]);) {
      bracket = !word_char(text[at - 1]);
      const int depth = scan.depth[at - 1];
      const auto goes_on = [&] {
        if (!bracket) return word_char(text[at - 1]);
        const bool opens = scan.code[at] && scan.depth[at] == depth && (text[at] == '(' || text[at] == '[');
        return !opens;
      };
      for (--at; at > 0 && goes_on();) --at;
      if (bracket && goes_on()) return region;
    }
    if (const size_t dot = skip_blanks(at); dot > 0 && text[dot - 1] == '.') at = dot;
  }
  Region whole = region;
  whole.line = first + static_cast<int>(std::count(text.begin(), text.begin() + at, '\n'));
  whole.column = static_cast<int>(at - (text.rfind('\n', at) + 1));
  return whole;
}

std::string Source::before(const Region& region) const {
  if (region.column < 0 || region.line < 1 || region.line > static_cast<int>(lines_.size())) return {};
  return lines_[region.line - 1].substr(0, region.column);
}

std::string Source::after(const Region& region) const {
  if (region.end_column < 0 || region.end_line < 1 || region.end_line > static_cast<int>(lines_.size())) return {};
  const std::string& line = lines_[region.end_line - 1];
  return line.substr(std::min<size_t>(region.end_column, line.size()));
}

}  // namespace devtrace::evidence

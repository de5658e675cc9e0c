#include "tracker/evidence/source/source.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tracker/base/files.h"
#include "tracker/evidence/source/zip_file.h"
#include "tracker/python/gil/elements.h"

namespace devtrace::evidence {
namespace {

using python::Ref;

constexpr int kMostLines = 10;
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

// Open brackets less closed ones, strings and comments left out (roughly: a string over several lines is not followed).
int bracket_balance(const std::string& line) {
  int balance = 0;
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      break;
    } else if (c == '(' || c == '[' || c == '{') {
      ++balance;
    } else if (c == ')' || c == ']' || c == '}') {
      --balance;
    }
  }
  return balance;
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

Region Source::closed(Region region) const {
  const int last = static_cast<int>(lines_.size());
  if (region.end_line >= region.line || region.line < 1 || region.line > last) return region;
  int balance = 0;
  for (region.end_line = region.line; region.end_line <= last; ++region.end_line) {
    balance += bracket_balance(lines_[region.end_line - 1]);
    if (balance <= 0 || region.end_line - region.line + 1 == kMostLines) break;
  }
  region.end_line = std::min(region.end_line, last);
  return region;
}

std::string Source::lines(const Region& given) const {
  const Region region = closed(given);
  const int last = std::min({region.end_line, region.line + kMostLines - 1, static_cast<int>(lines_.size())});
  if (region.line < 1 || last < region.line) return {};
  return without_indentation(lines_, region.line, last, std::string::npos);
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

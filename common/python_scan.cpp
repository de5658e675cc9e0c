#include "common/python_scan.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace devtrace {

bool is_assignment(std::string_view source, size_t at) {
  const char before = at > 0 ? source[at - 1] : ' ';
  const char after = at + 1 < source.size() ? source[at + 1] : ' ';
  return after != '=' && before != '=' && before != '!' && before != '<' && before != '>' && before != ':';
}

Scan::Scan(std::string_view source) : code(source.size(), false), depth(source.size(), 0) {
  int level = 0;
  for (size_t at = 0; at < source.size();) {
    const char c = source[at];
    if (c == '#') {
      while (at < source.size() && source[at] != '\n') depth[at++] = level;
      continue;
    }
    if (c == '"' || c == '\'') {
      at = skip_literal(source, at, level);
      continue;
    }
    if (c == ')' || c == ']' || c == '}') --level;
    code[at] = true;
    depth[at] = level;
    if (c == '(' || c == '[' || c == '{') ++level;
    if (c == '=' && level == 0 && is_assignment(source, at)) value_begins = at + 1;
    ++at;
  }
  balanced = balanced && level == 0;
  open = level;
}

size_t Scan::skip_literal(std::string_view source, size_t at, int level) {
  const char quote = source[at];
  const bool triple = source.substr(at, 3) == std::string(3, quote);
  const size_t width = triple ? 3 : 1;
  size_t end = at + width;
  while (end < source.size() && source.substr(end, width) != std::string(width, quote))
    end += source[end] == '\\' ? 2 : 1;
  if (end >= source.size()) balanced = false;
  end = std::min(end + width, source.size());
  for (size_t inside = at; inside < end; ++inside) depth[inside] = level;
  return end;
}

bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace devtrace

#include "report/phrasing/cpp_text.h"

#include <algorithm>

namespace devtrace::report {

std::string code_of(std::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < code.size();) {
    size_t end = i + 1;
    if (code.compare(i, 2, "//") == 0) {
      end = std::min(code.find('\n', i), code.size());
    } else if (code.compare(i, 2, "/*") == 0) {
      const size_t close = code.find("*/", i + 2);
      end = close == code.npos ? code.size() : close + 2;
    } else if (code[i] == '"' || (code[i] == '\'' && (i == 0 || !is_word(code[i - 1])))) {
      while (end < code.size() && code[end] != code[i]) end += code[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, code.size());
    } else {
      ++i;
      continue;
    }
    for (; i < end; ++i)
      if (code[i] != '\n') code[i] = ' ';
  }
  return code;
}

size_t behind_bracket(std::string_view code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '(' || code[i] == '[' || code[i] == '{') ++depth;
    if ((code[i] == ')' || code[i] == ']' || code[i] == '}') && --depth == 0) return i + 1;
  }
  return code.npos;
}

size_t skip_blanks(std::string_view code, size_t at) {
  while (at < code.size() && is_blank(code[at])) ++at;
  return at;
}

}  // namespace devtrace::report

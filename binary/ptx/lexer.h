// Words of PTX text.
#pragma once

#include <cstddef>
#include <string_view>

namespace devtrace::ptx {

struct Token {
  std::string_view text;  // empty: the end
  size_t line = 1;
  bool adjacent = false;  // nothing stands between it and the one before
};

// A name, a directive or modifier with its dot, a number, a string with its quotes, else a single character. Ends with
// the text or at a zero.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();

 private:
  bool skip();
  bool starts(std::string_view with) const { return text_.substr(at_).starts_with(with); }

  std::string_view text_;
  size_t at_ = 0, line_ = 1;
};

}  // namespace devtrace::ptx

// Python text as characters: what of it is code, and how deep in brackets.
#pragma once

#include <string_view>
#include <vector>

namespace devtrace {

bool word_char(char c);

// What of a statement, or of several, is code: not inside of a string literal or a comment. How deep in brackets each
// byte lies, and where the value of the last assignment begins.
struct Scan {
  explicit Scan(std::string_view source);

  std::vector<bool> code;
  std::vector<int> depth;
  size_t value_begins = 0;
  bool balanced = true;  // false for a statement that was cut
  int open = 0;          // brackets that are not closed

 private:
  size_t skip_literal(std::string_view source, size_t at, int level);
};

// Does the `=` at that place assign, or bind a keyword? `+=` and the like do.
bool is_assignment(std::string_view source, size_t at);

}  // namespace devtrace

// The signs of C++ text: what reads statements is built of these (cpp_source.h, cpp_launch.h).
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace devtrace::report {

inline bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
inline bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c));
}

// The same text with what stands in strings and comments made blank, so that places stay.
std::string code_of(std::string_view text);

// Behind the bracket that closes the one at `open`; npos where none does.
size_t behind_bracket(std::string_view code, size_t open);

size_t skip_blanks(std::string_view code, size_t at);

}  // namespace devtrace::report

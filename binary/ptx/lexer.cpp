#include "binary/ptx/lexer.h"

namespace devtrace::ptx {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' || c == '%';
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

// Past white space and comments; whether there was any.
bool Lexer::skip() {
  const size_t began = at_;
  while (at_ < text_.size()) {
    if (is_space(text_[at_])) {
      line_ += text_[at_++] == '\n';
    } else if (starts("//")) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (starts("/*")) {
      for (at_ += 2; at_ < text_.size() && !starts("*/"); ++at_) line_ += text_[at_] == '\n';
      at_ = at_ < text_.size() ? at_ + 2 : at_;
    } else {
      break;
    }
  }
  return at_ != began;
}

Token Lexer::next() {
  const bool apart = skip();
  Token token;
  token.line = line_;
  token.adjacent = !apart;
  if (at_ >= text_.size() || !text_[at_]) return token;
  const size_t begin = at_++;
  const char first = text_[begin];
  if (first == '"') {
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    if (at_ < text_.size() && text_[at_] == '"') ++at_;
  } else if (in_word(first) || first == '.') {
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
  }
  token.text = text_.substr(begin, at_ - begin);
  return token;
}

}  // namespace devtrace::ptx

#include "tracker/evidence/expression.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace devtrace::evidence {
namespace {

constexpr std::string_view kKeywords[] = {"False",  "None",   "True",   "and",      "as",     "assert",   "async",
                                          "await",  "break",  "class",  "continue", "def",    "del",      "elif",
                                          "else",   "except", "for",    "from",     "global", "if",       "import",
                                          "in",     "is",     "lambda", "not",      "or",     "pass",     "raise",
                                          "return", "try",    "while",  "with",     "yield",  "nonlocal", "finally"};

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80);
}
bool continues_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c));
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<Path> run() {
    std::vector<Path> paths;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        skip_comment();
      } else if (c == '"' || c == '\'') {
        string_literal();
      } else if (begins_name(c)) {
        if (auto path = name_path(); !path.variable.empty()) add(paths, std::move(path));
      } else if (std::isdigit(static_cast<unsigned char>(c))) {
        while (at_ < text_.size() && (continues_name(text_[at_]) || text_[at_] == '.')) ++at_;
      } else if (c == '.') {
        // An attribute of something that is no path: (a + b).sum
        ++at_;
        skip_space();
        name();
      } else {
        ++at_;
      }
    }
    return paths;
  }

 private:
  static void add(std::vector<Path>& paths, Path path) {
    const std::string written = to_string(path);
    const bool known =
        std::any_of(paths.begin(), paths.end(), [&](const Path& other) { return to_string(other) == written; });
    if (!known) paths.push_back(std::move(path));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // The literal's characters; escapes are kept as they stand, which is enough for keys.
  std::string string_literal() {
    const char quote = text_[at_];
    const std::string_view triple = text_.substr(at_, 3);
    const bool long_form = triple.size() == 3 && triple[1] == quote && triple[2] == quote;
    const std::string_view end = long_form ? triple : text_.substr(at_, 1);
    at_ += end.size();
    const size_t begin = at_;
    while (at_ < text_.size() && text_.substr(at_, end.size()) != end) at_ += text_[at_] == '\\' ? 2 : 1;
    const size_t stop = std::min(at_, text_.size());
    at_ = std::min(stop + end.size(), text_.size());
    return std::string(text_.substr(begin, stop - begin));
  }

  // Inside parentheses `x=` names an argument; outside it is an assignment's target, which is no operand either.
  bool is_assigned() const {
    size_t ahead = at_;
    while (ahead < text_.size() && (text_[ahead] == ' ' || text_[ahead] == '\t')) ++ahead;
    return ahead < text_.size() && text_[ahead] == '=' && (ahead + 1 == text_.size() || text_[ahead + 1] != '=');
  }

  Path name_path() {
    Path path;
    path.variable = name();
    if (std::find(std::begin(kKeywords), std::end(kKeywords), path.variable) != std::end(kKeywords)) return {};
    if (peek() == '"' || peek() == '\'') {  // a string's prefix: f"…"
      string_literal();
      return {};
    }
    if (is_assigned()) return {};
    while (step(path)) {
    }
    if (peek() == '(') {  // a call: what counts is what it is called on
      if (path.steps.empty()) return {};
      path.steps.pop_back();
    }
    return path;
  }

  bool step(Path& path) {
    const size_t before = at_;
    if (peek() == '.') {
      ++at_;
      path.steps.push_back({Step::attribute, name(), 0});
      return true;
    }
    if (peek() != '[') return false;
    ++at_;
    skip_space();
    Step found{Step::key, {}, 0};
    if (peek() == '"' || peek() == '\'') {
      found.name = string_literal();
    } else {
      const size_t digits = at_;
      if (peek() == '-') ++at_;
      while (std::isdigit(static_cast<unsigned char>(peek()))) ++at_;
      found.kind = Step::index;
      if (digits != at_)
        found.position = std::strtol(std::string(text_.substr(digits, at_ - digits)).c_str(), nullptr, 10);
      else
        found.position = -1;
    }
    skip_space();
    if (peek() != ']' || (found.kind == Step::index && text_[before + 1] == ']')) {
      at_ = before + 1;  // not a literal: x[i], x[:, 0]. What is inside is scanned on its own.
      return false;
    }
    ++at_;
    path.steps.push_back(std::move(found));
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Path> paths_in(std::string_view source) {
  return Scanner(source).run();
}

std::string to_string(const Path& path) {
  std::string text = path.variable;
  for (const Step& step : path.steps) {
    if (step.kind == Step::attribute)
      text += "." + step.name;
    else if (step.kind == Step::key)
      text += "[\"" + step.name + "\"]";
    else
      text += "[" + std::to_string(step.position) + "]";
  }
  return text;
}

}  // namespace devtrace::evidence

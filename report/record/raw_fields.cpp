#include "report/record/raw_fields.h"

#include <cstring>

namespace devtrace::report {
namespace {

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

class RawCursor {
 public:
  explicit RawCursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool take(char c) {
    skip_blanks();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool at_end() {
    skip_blanks();
    return at_ == end_;
  }
  // A value of any sort, or nothing where it does not end.
  std::string_view value() {
    skip_blanks();
    const char* const begin = at_;
    if (at_ == end_) return {};
    const bool ends = *at_ == '"' ? skip_string() : *at_ == '{' || *at_ == '[' ? skip_brackets() : skip_word();
    return ends ? std::string_view(begin, static_cast<size_t>(at_ - begin)) : std::string_view();
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && blank(*at_)) ++at_;
  }
  bool skip_string() {
    const char* const begin = at_++;
    for (;;) {
      at_ = static_cast<const char*>(std::memchr(at_, '"', static_cast<size_t>(end_ - at_)));
      if (!at_) return at_ = end_, false;
      const char* before = at_++;
      while (before[-1] == '\\' && before - 1 > begin) --before;
      if ((at_ - 1 - before) % 2 == 0) return true;
    }
  }
  bool skip_brackets() {
    size_t depth = 0;
    while (at_ != end_) {
      const char c = *at_;
      if (c == '"') {
        if (!skip_string()) return false;
        continue;
      }
      ++at_;
      // '[' and '{' as well as ']' and '}' differ in one bit.
      if ((c | 0x20) == '{') ++depth;
      if ((c | 0x20) == '}' && --depth == 0) return true;
    }
    return false;
  }
  bool skip_word() {
    const char* const begin = at_;
    while (at_ != end_ && !blank(*at_) && *at_ != ',' && *at_ != '}' && *at_ != ']') ++at_;
    return at_ != begin;
  }

  const char *at_, *end_;
};

}  // namespace

bool RawFields::cut(std::string_view object) {
  fields_.clear();
  RawCursor cursor(object);
  const auto whole = [&] {
    if (!cursor.take('{')) return false;
    if (cursor.take('}')) return cursor.at_end();
    do {
      std::string_view key = cursor.value();
      if (key.size() < 2 || key.front() != '"' || !cursor.take(':')) return false;
      const std::string_view value = cursor.value();
      if (value.empty()) return false;
      fields_.emplace_back(key.substr(1, key.size() - 2), value);
    } while (cursor.take(','));
    return cursor.take('}') && cursor.at_end();
  };
  if (whole()) return true;
  fields_.clear();
  return false;
}

std::string_view RawFields::operator[](std::string_view key) const {
  for (const auto& [name, value] : fields_)
    if (name == key) return value;
  return {};
}

std::vector<std::string_view> raw_elements(std::string_view array) {
  RawCursor cursor(array);
  std::vector<std::string_view> all;
  if (!cursor.take('[') || cursor.take(']')) return all;
  do {
    const std::string_view value = cursor.value();
    if (value.empty()) return {};
    all.push_back(value);
  } while (cursor.take(','));
  return cursor.take(']') ? all : std::vector<std::string_view>();
}

}  // namespace devtrace::report

// Texts with holes: how tables describe errors' messages. A pattern is the beginning of a text; its holes are `{}`,
// anything, or `{name}`, what the text says of that. Each ends where what follows it stands first; at the pattern's end
// `{}` is all that is left, and `{name}` one word.
#pragma once

#include <array>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace devtrace::refusals {

inline constexpr size_t kMostHoles = 6;

struct Match {
  struct Hole {
    std::string_view name, text;
  };
  std::array<Hole, kMostHoles> holes;
  size_t count = 0;
  size_t length = 0;  // of the text that matches

  const Hole* begin() const { return holes.data(); }
  const Hole* end() const { return holes.data() + count; }
  std::string_view operator[](std::string_view name) const {
    for (const Hole& hole : *this)
      if (hole.name == name) return hole.text;
    return {};
  }
};

// Letters, digits, `:` and `_`; of CUDA events PyTorch writes a device's index as one character of that value.
inline size_t length_of_word(std::string_view text) {
  size_t end = 0;
  const auto at = [&] { return static_cast<unsigned char>(text[end]); };
  while (end < text.size() && (std::isalnum(at()) || at() == ':' || at() == '_')) ++end;
  return end == 0 && !text.empty() && at() < ' ' ? 1 : end;
}

// As string_view::find, which asks memchr for every first character.
inline size_t place_of(std::string_view part, std::string_view text) {
  if (text.empty()) return part.empty() ? 0 : text.npos;  // its pointer may be null, which memmem may not be given
  const void* const found = ::memmem(text.data(), text.size(), part.data(), part.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : text.npos;
}

// Allocates nothing.
inline bool matches(std::string_view pattern, std::string_view text, Match& out) {
  if (!pattern.starts_with('{') && (text.empty() || text[0] != pattern[0])) return false;  // as most tell apart
  const char* const begin = text.data();
  out.count = 0;
  while (true) {
    const size_t open = pattern.find('{');
    const std::string_view literal = pattern.substr(0, open);
    if (!text.starts_with(literal)) return false;
    text.remove_prefix(literal.size());
    if (open == pattern.npos) break;
    const size_t close = pattern.find('}', open);
    const std::string_view name = pattern.substr(open + 1, close - open - 1);
    pattern.remove_prefix(close + 1);
    const size_t end = !pattern.empty() ? place_of(pattern.substr(0, pattern.find('{')), text)
                       : name.empty()   ? text.size()
                                        : length_of_word(text);
    if (end == text.npos) return false;
    out.holes[out.count++] = {name, text.substr(0, end)};
    text.remove_prefix(end);
  }
  out.length = static_cast<size_t>(text.data() - begin);
  return true;
}

}  // namespace devtrace::refusals

#include "common/text.h"

#include <algorithm>
#include <cstdint>

namespace devtrace {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Decoded {
  char32_t character;
  size_t bytes;  // 0: not well-formed here
};

bool continues(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

Decoded decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[at + index]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead <= 0xDF && continues(text, at + 1)) {
    return {static_cast<char32_t>((lead & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  }
  if ((lead & 0xF0) == 0xE0 && continues(text, at + 1) && continues(text, at + 2)) {
    const char32_t character = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (character >= 0x800 && (character < 0xD800 || character > 0xDFFF)) return {character, 3};
  }
  if ((lead & 0xF8) == 0xF0 && continues(text, at + 1) && continues(text, at + 2) && continues(text, at + 3)) {
    const char32_t character = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (character >= 0x10000 && character <= 0x10FFFF) return {character, 4};
  }
  return {0, 0};
}

void append_hex(std::string& out, char32_t character, int digits) {
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) out += "0123456789abcdef"[(character >> shift) & 0xF];
}

bool reorders(char32_t character) {
  return character == 0x061C || character == 0x200E || character == 0x200F ||
         (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069) ||
         character == 0x2028 || character == 0x2029;
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Decoded decoded = decode(bytes, at);
    if (decoded.bytes == 0) {
      out += kReplacement;
      ++at;
    } else {
      out.append(bytes.substr(at, decoded.bytes));
      at += decoded.bytes;
    }
  }
  return out;
}

std::string printable(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = decode(text, at);
    const char32_t character = decoded.character;
    if (decoded.bytes == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    if (character == '\t') {
      out += ' ';
    } else if (character == '\n' && lines) {
      out += '\n';
    } else if (character < 0x20 || (character >= 0x7F && character < 0xA0)) {
      out += "\\x";
      append_hex(out, character, 2);
    } else if (reorders(character)) {
      out += "\\u";
      append_hex(out, character, 4);
    } else {
      out.append(text.substr(at, decoded.bytes));
    }
    at += decoded.bytes;
  }
  return out;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_escaped(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else if (json.compare(at, 3, "\xE2\x80\xA8") == 0 || json.compare(at, 3, "\xE2\x80\xA9") == 0) {
      out += json[at + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += c;
    }
  }
  return out;
}

size_t length(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string shell_quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string out = "'";
  for (const char each : word) out += each == '\'' ? "'\\''" : std::string(1, each);
  return out + '\'';
}

std::string shortened(std::string_view text, size_t limit) {
  if (limit < 3 || length(text) <= limit) return std::string(text);
  const size_t tail = (limit - 1) / 2;
  const size_t head = limit - 1 - tail;
  const auto starts = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80; };
  size_t head_end = 0;
  for (size_t seen = 0; head_end < text.size(); ++head_end) {
    if (starts(head_end) && seen++ == head) break;
  }
  size_t tail_begin = text.size();
  for (size_t seen = 0; tail_begin > head_end && seen < tail;) seen += starts(--tail_begin);
  return std::string(text.substr(0, head_end)) + "…" + std::string(text.substr(tail_begin));
}

std::string dedented(std::string_view source) {
  const size_t indent = source.find_first_not_of(" \t");
  if (indent == source.npos) return {};
  std::string out;
  while (!source.empty()) {
    const size_t end = std::min(source.find('\n'), source.size());
    std::string_view line = source.substr(0, end);
    line.remove_prefix(std::min({indent, line.find_first_not_of(" \t"), line.size()}));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (!out.empty()) out += '\n';
    out += line;
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  return out;
}

}  // namespace devtrace

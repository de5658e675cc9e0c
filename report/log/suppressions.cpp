#include "report/log/suppressions.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/format.h"
#include "common/glob.h"
#include "common/text.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report {
namespace {

// Every key of an entry.
struct Key {
  std::string_view name;
  std::string Suppression::*value;
  bool is_pattern;
};
constexpr Key kKeys[] = {
    {"kind", &Suppression::kind, true},
    {"operation", &Suppression::operation, true},
    {"function", &Suppression::function, true},
    {"file", &Suppression::file, true},
    {"kernel", &Suppression::kernel, true},
    {"module", &Suppression::module, true},
    {"fingerprint", &Suppression::fingerprint, true},
    {"reason", &Suppression::reason, false},
    {"expires", &Suppression::expires, false},
};

constexpr double kDays = 86400;
constexpr double kHolds = 90 * kDays;
constexpr size_t kComplaints = 20;
constexpr size_t kLongest = 1u << 20;  // of the file

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_date(std::string_view text) {
  if (text.size() != 10) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool dash = at == 4 || at == 7;
    if (dash ? text[at] != '-' : text[at] < '0' || text[at] > '9') return false;
  }
  const int month = (text[5] - '0') * 10 + text[6] - '0', day = (text[8] - '0') * 10 + text[9] - '0';
  return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

// The value at the front of `rest`, which it removes: up to a blank, or in double quotes, where \" and \\ stand for
// themselves. Nothing when the quote does not end.
std::optional<std::string> take_value(std::string_view& rest) {
  std::string value;
  if (!rest.starts_with('"')) {
    while (!rest.empty() && !blank(rest.front())) {
      value += rest.front();
      rest.remove_prefix(1);
    }
    return value;
  }
  for (size_t at = 1; at < rest.size(); ++at) {
    if (rest[at] == '"') {
      rest.remove_prefix(at + 1);
      return value;
    }
    if (rest[at] == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
    value += rest[at];
  }
  return std::nullopt;
}

// Fills `entry` from one line; what is wrong with it, or empty.
std::string parse_entry(std::string_view rest, Suppression& entry) {
  bool any_pattern = false;
  for (;;) {
    while (!rest.empty() && blank(rest.front())) rest.remove_prefix(1);
    if (rest.empty() || rest.front() == '#') break;
    const size_t end = rest.find_first_of("= \t");
    if (end == rest.npos || rest[end] != '=')
      return fmt::format("'{}' is not of the form key=value", shortened(printable(rest.substr(0, end)), 60));
    const std::string_view name = rest.substr(0, end);
    const auto key =
        std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& each) { return each.name == name; });
    if (key == std::end(kKeys)) {
      std::string known;
      for (const Key& each : kKeys) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
      return fmt::format("there is no key '{}'; there are {}", shortened(printable(name), 60), known);
    }
    rest.remove_prefix(end + 1);
    auto value = take_value(rest);
    if (!value) return fmt::format("the quotation mark after {}= is never closed", name);
    if (value->empty() && key->is_pattern) return fmt::format("{}= is empty", name);
    if (name == "expires" && !is_date(*value))
      return fmt::format("expires={}: not a date like 2026-12-31", printable(*value));
    any_pattern |= key->is_pattern;
    entry.*key->value = std::move(*value);
  }
  return any_pattern ? "" : "no pattern: it would suppress everything";
}

bool fits(std::string_view pattern, std::string_view text) {
  return pattern.empty() || pattern_matches(pattern, text);
}

bool any_frame(const finding::Stack& frames, const Suppression& entry) {
  return std::any_of(frames.begin(), frames.end(), [&](const finding::Frame& frame) {
    return fits(entry.function, frame.function) && fits(entry.file, frame.file);
  });
}

bool any_module(const finding::Finding& finding, std::string_view pattern) {
  for (const finding::Frame& frame : finding.native) {
    const std::string_view library = frame.module;
    if (!library.empty() && pattern_matches(pattern, library.substr(library.rfind('/') + 1))) return true;
  }
  for (const finding::Operand& operand : finding.operands)
    for (const std::string* name : {&operand.module_class, &operand.module_path, &operand.root_class})
      if (!name->empty() && pattern_matches(pattern, *name)) return true;
  return false;
}

std::string as_value(std::string_view value) {
  if (value.find_first_of(" \t\"#") == value.npos) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

bool Suppression::covers(const finding::Finding& finding) const {
  if (!fits(kind, finding.kind) || !fits(operation, finding.operation) ||
      !fits(kernel, finding.of<finding::Launch>().launch.kernel) || !fits(fingerprint, finding.fingerprint))
    return false;
  if (!module.empty() && !any_module(finding, module)) return false;
  if (function.empty() && file.empty()) return true;
  return any_frame(finding.stack, *this) || any_frame(finding.native, *this);
}

std::optional<size_t> Suppressions::covering(const finding::Finding& finding, std::string_view today) const {
  for (size_t index = 0; index < entries.size(); ++index)
    if (!entries[index].expired(today) && entries[index].covers(finding)) return index;
  return std::nullopt;
}

Suppressions parse_suppressions(std::string_view text, std::string path) {
  Suppressions all;
  all.path = std::move(path);
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    Suppression entry;
    entry.line = number;
    const std::string fault = parse_entry(line, entry);
    if (fault.empty())
      all.entries.push_back(std::move(entry));
    else if (all.complaints.size() < kComplaints)
      all.complaints.push_back(fmt::format("{}:{}: {}", all.path, number, fault));
  }
  return all;
}

std::optional<Suppressions> read_suppressions(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored) || std::filesystem::is_socket(path, ignored)) {
    errno = ENOTSUP;  // nobody may be writing to it
    return std::nullopt;
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(kLongest + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in.eof() && in.fail()) || static_cast<size_t>(in.gcount()) > kLongest) {
    if (in) errno = EFBIG;
    if (errno == 0) errno = EIO;
    return std::nullopt;
  }
  text.resize(static_cast<size_t>(in.gcount()));
  return parse_suppressions(text, path);
}

std::string date_of(double seconds) {
  return clock_time(seconds).substr(0, 10);
}

namespace {

// A text as the pattern that fits it: what cannot be written down, and a mark that would be taken for an end's, may be
// anything.
std::string pattern_of(std::string_view text, bool to_end) {
  std::string out;
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const size_t size = std::min<size_t>(text.size(), lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
    const std::string_view character = text.substr(0, size);
    out += printable(character) == character ? std::string(character) : "*";
    text.remove_prefix(size);
  }
  if (out.starts_with('^')) out[0] = '*';
  if (!to_end && out.ends_with('$')) out.back() = '*';
  return out;
}

}  // namespace

std::string suppression_entry(const Json& process, const Json& finding) {
  std::string out;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) out += fmt::format("{}{}={}", out.empty() ? "" : " ", key, as_value(value));
  };
  const auto whole = [](std::string_view text) {
    constexpr size_t kMost = 200;
    if (text.empty() || text.size() > kMost) return pattern_of(text.substr(0, kMost), false);
    return fmt::format("^{}$", pattern_of(text, true));
  };
  add("kind", string(finding, "kind"));
  add("operation", whole(string(finding, "operation")));
  const Json& frame = user_frame(array(finding, "python"));
  const Json& native = native_user_frame(array(finding, "native"));
  if (!frame.empty()) {
    add("function", whole(string(frame, "function")));
    if (const std::string file = shown_file(string(frame, "file"), string(process, "cwd")); !file.empty())
      add("file", pattern_of(file, true) + '$');
  } else if (!native.empty()) {
    const std::string_view module = string(native, "module");
    add("function", whole(string(native, "function")));
    add("module", whole(module.substr(module.rfind('/') + 1)));
  } else {
    add("fingerprint", string(finding, "fingerprint"));
  }
  if (const auto time = number(finding, "time")) add("expires", date_of(*time + kHolds));
  return out + " reason=\"\"";
}

}  // namespace devtrace::report

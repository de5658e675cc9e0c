#include "tracker/base/options.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "tracker/base/message.h"

namespace devtrace {
namespace {

// By code of our own. memcmp may be somebody's who stands before the C library and looks for the real one with dlsym,
// which is how options are first asked for. The barrier keeps the compiler from making a call of the loop.
bool same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  for (size_t i = 0; i < one.size(); ++i) {
    __asm__ volatile("");
    if (one[i] != other[i]) return false;
  }
  return true;
}

// Each parser returns what was wrong with the value, or nullptr.
const char* parse_value(std::string_view value, bool& out) {
  if (same(value, "1") || same(value, "true") || same(value, "yes") || same(value, "on"))
    out = true;
  else if (same(value, "0") || same(value, "false") || same(value, "no") || same(value, "off"))
    out = false;
  else
    return "must be 0 or 1";
  return nullptr;
}

const char* parse_value(std::string_view value, int& out) {
  const std::string text(value);
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno == ERANGE || number < 0 || number > INT_MAX)
    return "must be a whole number, 0 or more";
  out = static_cast<int>(number);
  return nullptr;
}

const char* parse_value(std::string_view value, std::string& out) {
  if (value.empty()) return "must not be empty";
  out = value;
  return nullptr;
}

const char* parse_value(std::string_view value, Backend& out) {
  if (same(value, "auto"))
    out = Backend::automatic;
  else if (same(value, "interpose"))
    out = Backend::interpose;
  else if (same(value, "cupti"))
    out = Backend::cupti;
  else
    return "must be auto, interpose or cupti";
  return nullptr;
}

std::string default_text(bool value) {
  return value ? "1" : "0";
}
std::string default_text(int value) {
  return std::to_string(value);
}
std::string default_text(Backend) {
  return "auto";
}
std::string default_text(const char* value) {
  return value;
}

void set(ParsedOptions& parsed, std::string_view key, std::string_view value) {
  const char* fault = nullptr;
  if (same(key, "help")) {
    fault = parse_value(value, parsed.help);
  }
#define OPTION(type, name, default_value, description) \
  else if (same(key, #name)) {                         \
    fault = parse_value(value, parsed.values.name);    \
  }
#include "tracker/base/options.inc"
#undef OPTION
  else {
    parsed.complaints.push_back("DEVTRACE_OPTIONS: there is no option '" + std::string(key) +
                                "' (DEVTRACE_OPTIONS=help=1 lists them)");
    return;
  }
  if (fault)
    parsed.complaints.push_back("DEVTRACE_OPTIONS: " + std::string(key) + "=" + std::string(value) + ": " + fault +
                                "; the default stands");
}

// The next key=value of `text`, up to an unquoted ':'; removes it from `text`.
std::string next_item(std::string_view& text) {
  std::string item;
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size() && (quoted || text[at] != ':'); ++at) {
    if (text[at] == '"')
      quoted = !quoted;
    else
      item += text[at];
  }
  text.remove_prefix(at < text.size() ? at + 1 : at);
  return item;
}

}  // namespace

ParsedOptions parse_options(std::string_view text) {
  ParsedOptions parsed;
  while (!text.empty()) {
    const std::string item = next_item(text);
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    if (equals == std::string::npos)
      parsed.complaints.push_back("DEVTRACE_OPTIONS: '" + item + "' is not of the form key=value");
    else
      set(parsed, std::string_view(item).substr(0, equals), std::string_view(item).substr(equals + 1));
  }
  return parsed;
}

std::string options_help() {
  std::string help = "DEVTRACE_OPTIONS=key=value:key=value, with these keys (and their defaults):\n";
#define OPTION(type, name, default_value, description) \
  help += "  " #name "=" + default_text(default_value) + "\n      " description "\n";
#include "tracker/base/options.inc"
#undef OPTION
  return help;
}

namespace {

// What these were made of; leaked.
constinit std::atomic<const std::string*> read_from_environment{nullptr};
const std::string* present = nullptr;  // once they were set; one thread at a time sets them

const Options* parsed_and_told(const std::string& text) {
  auto* parsed = new ParsedOptions(parse_options(text));
  if (parsed->help) say_lines(options_help());
  for (const std::string& complaint : parsed->complaints) warn(complaint);
  verbose_wanted.store(parsed->values.verbose, std::memory_order_relaxed);
  return &parsed->values;
}

std::string environments() {
  const char* text = std::getenv("DEVTRACE_OPTIONS");
  return text ? text : "";
}

}  // namespace

// Never destroyed: hooks may run after static destructors.
constinit std::atomic<const Options*> detail::current_options{nullptr};

const Options& detail::first_options() {
  static const Options* const first = [] {
    const std::string* const text = new std::string(environments());
    read_from_environment.store(text);
    return parsed_and_told(*text);
  }();
  const Options* expected = nullptr;
  current_options.compare_exchange_strong(expected, first);
  return *current_options.load(std::memory_order_acquire);
}

void read_options_anew() {
  const std::string* const known = read_from_environment.load();
  if (!known || present || *known == environments()) return;
  const std::string* const text = new std::string(environments());
  read_from_environment.store(text);
  detail::current_options.store(parsed_and_told(*text));
}

namespace {

void set_on_top_of(std::string all, std::string_view text) {
  if (!all.empty() && !text.empty()) all += ':';
  present = new std::string(all.append(text));
  detail::current_options.store(parsed_and_told(*present));
}

}  // namespace

void set_options(std::string_view text) {
  set_on_top_of(environments(), text);
}

void add_options(std::string_view text) {
  set_on_top_of(present ? *present : environments(), text);
}

}  // namespace devtrace

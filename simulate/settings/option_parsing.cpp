#include "simulate/settings/option_parsing.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace devtrace::simulate {

namespace {

// "24GiB", "800 MB", "4g", a number: bytes within these bounds.
std::optional<size_t> read_size(const char* text, double least, double most) {
  struct Unit {
    const char* name;
    double factor;
  };
  static constexpr Unit kUnits[] = {{"", 1},          {"b", 1},       {"kib", 1 << 10}, {"mib", 1 << 20},
                                    {"gib", 1 << 30}, {"kb", 1e3},    {"mb", 1e6},      {"gb", 1e9},
                                    {"k", 1 << 10},   {"m", 1 << 20}, {"g", 1 << 30}};
  char* end;
  const double number = std::strtod(text, &end);
  if (end == text) return std::nullopt;
  std::string unit;
  for (; *end; ++end)
    if (*end != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
  for (const Unit& u : kUnits) {
    const double bytes = number * u.factor;
    if (unit == u.name && bytes >= least && bytes <= most) return static_cast<size_t>(bytes);
  }
  return std::nullopt;
}

constexpr double kMostMemory = 1LL << 40;  // of a device: 16 arenas stay inside 47 bits

}  // namespace

std::optional<size_t> read_memory(const char* text) {
  return read_size(text, 2 << 20, kMostMemory);  // below one 2 MiB chunk nothing can be allocated
}

std::optional<WantedValues> read_values(const char* text) {
  constexpr std::string_view kSmall = "small:";
  const std::string_view value = text;
  if (value == "auto") return WantedValues{};
  if (value == "all" || value == "python") return WantedValues{ValuesPolicy::all, true};
  if (value == "none" || value == "0") return WantedValues{ValuesPolicy::none, true};
  if (value == "small") return WantedValues{ValuesPolicy::small, true};
  if (!value.starts_with(kSmall)) return std::nullopt;
  const std::optional<size_t> large = read_size(text + kSmall.size(), 1, kMostMemory);
  return large ? std::optional(WantedValues{ValuesPolicy::small, true, *large}) : std::nullopt;
}

Peers all_peers() {
  Peers peers;
  for (size_t i = 0; i < kMaxDevices; ++i) peers[i] = ((1u << kMaxDevices) - 1) & ~(1u << i);
  return peers;
}

std::optional<Peers> read_peers(const char* text) {
  if (!std::strcmp(text, "all")) return all_peers();
  Peers peers{};
  if (!std::strcmp(text, "none")) return peers;
  for (const char* p = text;;) {
    char *dash, *end;
    const long a = std::strtol(p, &dash, 10);
    if (dash == p || *dash != '-') return std::nullopt;
    const long b = std::strtol(dash + 1, &end, 10);
    if (end == dash + 1 || a < 0 || b < 0 || a >= kMaxDevices || b >= kMaxDevices || a == b) return std::nullopt;
    peers[static_cast<size_t>(a)] |= 1u << b;
    peers[static_cast<size_t>(b)] |= 1u << a;
    if (!*end) return peers;
    if (*end != ',') return std::nullopt;
    p = end + 1;
  }
}

std::optional<uint64_t> read_seed(const char* text) {
  uint64_t seed = 0;
  const char* const last = text + std::strlen(text);
  const auto [end, error] = std::from_chars(text, last, seed);
  if (error != std::errc() || end != last) return std::nullopt;
  return seed;
}

}  // namespace devtrace::simulate

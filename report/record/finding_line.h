// What a finding's line says at its two ends, without the rest being parsed: a log may hold a million of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace devtrace::report {

struct FindingLine {
  int64_t id = 0, pid = 0;
  std::string_view kind, fingerprint;
  bool note = false;
  double time = 0;
  uint64_t count = 0;
  std::string_view whole;

  bool suppressed() const { return whole.find(R"(,"suppressed":{)") != whole.npos; }
};

// 16 hexadecimal digits.
bool is_fingerprint(std::string_view text);

// Nothing where the fields do not stand where this devtrace writes them: then the line has to be parsed.
std::optional<FindingLine> finding_line(std::string_view line);

}  // namespace devtrace::report

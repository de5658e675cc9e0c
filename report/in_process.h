// What the tracker asks of the report, once per finding, inside the user's process. Everything here works on records as
// docs/log.md describes them and on nothing else; none of it throws, touches the locale, or keeps state between calls.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace devtrace::report {

using Json = nlohmann::ordered_json;

// One line of the log: the record as JSON, with bytes that are not UTF-8 replaced by U+FFFD, ending in '\n'.
std::string json_line(const Json& record) noexcept;

// 16 hexadecimal digits that name the fault and not its occurrence; fingerprint.cpp says which bytes are hashed. Uses
// `cwd` of the process record, and `kind`, `operation`, `argument`, `devices`, `python` of the finding.
std::string fingerprint(const Json& process, const Json& finding) noexcept;

// The `cause` object of a finding: {category, confidence, because, fix, file, line}; `fix`, `file` and `line` are
// absent when no line can be named. Uses everything but `cause` and `fingerprint`. Null only when memory runs out.
Json verdict(const Json& finding) noexcept;

// The short report for stderr, ending in '\n'. `finding` as it is in the log, with its cause. `html_path`: where the
// HTML report lies, empty for none.
std::string text(const Json& process, const Json& finding, bool colour, std::string_view html_path) noexcept;

// The HTML report is only ever appended to, so that a process killed at any moment leaves a page that opens. A file is
//   html_head(process), then for each later record of the log html_finding (findings) or html_record (anything else),
// each written with one write(2). The browser needs nothing after the last of them.
std::string html_head(const Json& process) noexcept;  // the page, and the process record
std::string html_finding(const Json& process,
                         const Json& finding) noexcept;        // the record, and its text for browsers without scripts
std::string html_record(std::string_view json_line) noexcept;  // `count`, `end`, a newer `process`
std::string html_traffic(const Json& process,
                         const Json& traffic) noexcept;  // `traffic`, with what it costs on the link

std::string html_placement(const Json& placement) noexcept;  // `placement`, with its groups of tensors

}  // namespace devtrace::report

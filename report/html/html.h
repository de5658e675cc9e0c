// The HTML report, record by record.
#pragma once

#include <string>
#include <string_view>

#include "report/record/json.h"

namespace devtrace::report {

// The HTML report is only ever appended to, so that a process killed at any moment leaves a page that opens. A file is
//   html_head(process), then for each later record of the log html_finding (findings) or html_record (anything else),
// each written with one write(2). The browser needs nothing after the last of them.
std::string html_head(const Json& process) noexcept;  // the page, and the process record
std::string html_finding(const Json& process,
                         const Json& finding) noexcept;        // the record, and its text for browsers without scripts
std::string html_record(std::string_view json_line) noexcept;  // `count`, `end`, a newer `process`
std::string html_traffic(const Json& process,
                         const Json& traffic) noexcept;  // `traffic`, with what it costs on the link

// `memory` and `out_of_memory`, in words.
std::string html_memory(const Json& process, const Json& memory) noexcept;

std::string html_placement(const Json& placement) noexcept;  // `placement`, with its groups of tensors

}  // namespace devtrace::report

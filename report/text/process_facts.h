// What is known of the process as a whole, for the end of the text and the Markdown report.
#pragma once

#include <string>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::report {

// What a reader must know before he believes the rest, one sentence each: the devices were simulated, findings were
// dropped, the process was killed. `end`: the log's last record, empty when there was none.
std::vector<std::string> caveats(const Json& process, const Json& end);

// A block of lines, ending in '\n'; empty when nothing is known.
std::string process_text(const Json& process, const Json& end);
std::string process_markdown(const Json& process, const Json& end);

}  // namespace devtrace::report

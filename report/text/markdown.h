// A finding for a bug tracker or a job's page.
#pragma once

#include <string>
#include <string_view>

#include "report/record/json.h"
#include "report/traffic/traffic.h"

namespace devtrace::report {

// GitHub-flavoured Markdown, ending in '\n'. Names and code lie in code spans and fences longer than any run of
// backticks in them.
std::string markdown(const Json& process, const Json& finding);

// What moved between devices, as two tables; empty when nothing did.
std::string traffic_markdown(const Json& process, const Traffic& traffic);

// A code span, whatever the text holds; and the same, or any other piece, inside a table.
std::string markdown_code(std::string_view raw);
std::string markdown_cell(std::string text);

}  // namespace devtrace::report

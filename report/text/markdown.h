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

// The same to read, and none of it notifies anybody or leads anywhere. A mark of no width stands behind what begins a
// mention (@all), a reference (#12, !12, &12) or an address. A backslash does not help: GitHub and GitLab look for them
// in what was rendered.
std::string without_mentions(std::string_view raw);

}  // namespace devtrace::report

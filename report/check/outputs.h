// The judgement in the forms that people and their tools read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/check/comparison.h"

namespace devtrace::report::check {

struct Result {
  const Collection& logs;
  const Comparison& judged;
  std::string root;      // of the repository, absolute
  bool compared = true;  // with a baseline; else nothing is called new
};

// For the terminal: new findings whole (the first ones), the others a line each, and the tally.
std::string check_text(const Result& result, bool colour);

// JUnit XML as Jenkins, GitLab and GitHub's actions read it: a test case a fault. New ones fail, known and suppressed
// ones are skipped, gone ones pass, what could not be judged is an error.
std::string junit(const Result& result);

// A finding in a paragraph: what happened, who is where, why, and what to write in which line.
std::string paragraph(const Fault& fault, const Collection& logs);

// GitHub's workflow commands, one a line: an error for what is new, a notice for a note. GitHub shows each at its line.
std::string github(const Result& result);

// Who changed a line last, by the repository's history.
struct LastChange {
  std::string author, date, commit, summary;  // no author: it is in no commit yet
};
// Of the line at which a fault lies; nothing where that is not known.
using LastChangeOf = std::function<std::optional<LastChange>(const Fault&)>;

// For trackers and chats: for each new fault, the first kMostMessages, one JSON object a line, ready to be sent.
// "github": `title` and `body` (Markdown), as its interface takes an issue; "gitlab": the same with `description`;
// "slack-json": a message of Block Kit.
constexpr size_t kMostMessages = 50;
const std::vector<std::string>& message_formats();
std::string messages(const Result& result, std::string_view format, const LastChangeOf& last_change);

// SARIF 2.1.0, one run: results with baselineState, suppressions and the fingerprint as partial fingerprint.
std::string sarif(const Result& result);

// A summary for a job's page.
std::string check_markdown(const Result& result);

// The HTML page of all processes: the same page as for one, with "status" and "witnesses" in each finding's record.
// Given out piece by piece.
void check_html(const Result& result, const std::function<void(std::string_view)>& write);

// The log that a merged page or text stands for: the first process's record, and how many there were.
Json merged_process(const Collection& logs);

// A fault as the log has it, with `status`, `seen_by` (a text), `witnesses`, and the sum of its occurrences as `count`.
Json merged_finding(const ClassifiedFault& judged, const Result& result);

// What `devtrace report` shows of several logs: every fault once, with its occurrences by process, and the traffic of
// all.
std::string merged_text(const Result& result, bool colour);
std::string merged_markdown(const Result& result);

// "LlamaForCausalLM model.layers.16-31 (224 tensors)"; "cuda:0 and cuda:1".
std::string displaced_words(const Displaced& each);
std::string device_words(const std::set<std::string>& devices);

}  // namespace devtrace::report::check

#include <algorithm>
#include <iterator>

#include "common/format.h"
#include "common/text.h"
#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "report/phrasing/phrasing.h"
#include "report/text/markdown.h"

namespace devtrace::report::check {
namespace {

constexpr size_t kLongestTitle = 200;    // GitLab takes 255 characters, GitHub 256
constexpr size_t kLongestBody = 60'000;  // GitHub takes 65,536 characters
// Of Block Kit.
constexpr size_t kLongestHeader = 150, kLongestSection = 2900;

std::string issue_title(const Fault& fault) {
  std::string title = fmt::format("devtrace: {} {}", fault.kind.empty() ? "finding" : shortened(fault.kind, 40),
                                  shortened(fault.operation, 60));
  if (!fault.file.empty()) title += fmt::format(" at {}:{}", shortened(fault.file, 80), fault.line);
  if (!fault.function.empty()) title += fmt::format(" in {}", shortened(fault.function, 60));
  return without_mentions(shortened(printable(title), kLongestTitle));
}

std::string witnesses(const Fault& fault, const Collection& logs) {
  const std::string first = who_was_first(fault, logs);
  return occurrences(fault, logs) + (first.empty() ? "" : "; " + first);
}

std::string issue_body(const Fault& fault, const Result& result, const std::optional<LastChange>& change) {
  const Process& by = result.logs.processes()[fault.by_process.front().process];
  std::string report = markdown(by.record, fault.finding());
  // A part of it would leave fences open.
  if (length(report) > kLongestBody) report = markdown_code(shortened(paragraph(fault, result.logs), 8000)) + '\n';
  report += fmt::format("\nSeen by {}.\n", markdown_code(witnesses(fault, result.logs)));
  if (change && change->author.empty()) report += "\nThe line is in no commit yet.\n";
  if (change && !change->author.empty())
    report += fmt::format("\nThe line was last changed by {} on {} in {}: {}\n", markdown_code(change->author),
                          change->date, markdown_code(change->commit), markdown_code(change->summary));
  return report;
}

Json issue(const Fault& fault, const Result& result, const std::optional<LastChange>& change, const char* body) {
  return {{"title", issue_title(fault)}, {body, issue_body(fault, result, change)}};
}

// Nothing in it is a link, a mention or an emoji.
Json plain(std::string_view raw, size_t limit) {
  const std::string text = shortened(printable(raw, true), limit);
  return {{"type", "plain_text"}, {"text", text.empty() ? "-" : text}, {"emoji", false}};
}

// What a notification shows, which Slack reads as its own Markdown.
std::string notification(const Fault& fault) {
  std::string out;
  for (const char c : issue_title(fault))
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

Json slack(const ClassifiedFault& judged, const Result& result, const std::optional<LastChange>& change) {
  const Fault& fault = *judged.fault;
  const Json finding = fault.finding();
  Json facts = Json::array();
  if (!fault.file.empty())
    facts.push_back(
        plain(fmt::format("{}:{}{}", fault.file, fault.line, fault.function.empty() ? "" : " in " + fault.function),
              kLongestSection));
  facts.push_back(plain("seen by " + witnesses(fault, result.logs), kLongestSection));
  if (change)
    facts.push_back(plain(change->author.empty() ? "the line is in no commit yet"
                                                 : fmt::format("last changed by {} on {} in {}: {}", change->author,
                                                               change->date, change->commit, change->summary),
                          kLongestSection));
  facts.push_back(plain("fingerprint " + fault.fingerprint, kLongestSection));

  Json blocks = Json::array();
  blocks.push_back(
      {{"type", "header"},
       {"text", plain(fmt::format("devtrace: new {}", fault.kind.empty() ? "finding" : fault.kind), kLongestHeader)}});
  blocks.push_back({{"type", "section"}, {"text", plain(paragraph(fault, result.logs), kLongestSection)}});
  blocks.push_back({{"type", "context"}, {"elements", std::move(facts)}});
  return {{"text", notification(fault)}, {"blocks", std::move(blocks)}};
}

using Change = std::optional<LastChange>;
struct Message {
  const char* name;
  Json (*message)(const ClassifiedFault&, const Result&, const Change&);
};
const Message kMessages[] = {
    {"github", [](const ClassifiedFault& each, const Result& result,
                  const Change& change) { return issue(*each.fault, result, change, "body"); }},
    {"gitlab", [](const ClassifiedFault& each, const Result& result,
                  const Change& change) { return issue(*each.fault, result, change, "description"); }},
    {"slack-json", slack},
};

}  // namespace

const std::vector<std::string>& message_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Message& each : kMessages) all.emplace_back(each.name);
    return all;
  }();
  return names;
}

std::string messages(const Result& result, std::string_view format, const LastChangeOf& last_change) {
  const Message& one = *std::find_if(std::begin(kMessages), std::end(kMessages),
                                     [&](const Message& each) { return each.name == format; });
  std::string out;
  size_t shown = 0;
  for (const ClassifiedFault& each : result.judged.faults)
    if (each.status == Status::added && ++shown <= kMostMessages)
      out += json_line(one.message(each, result, last_change(*each.fault)));
  return out;
}

}  // namespace devtrace::report::check

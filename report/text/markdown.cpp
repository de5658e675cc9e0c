#include "report/text/markdown.h"

#include <algorithm>
#include <cctype>

#include "common/format.h"
#include "common/text.h"
#include "report/log/suppressions.h"
#include "report/phrasing/phrasing.h"
#include "report/phrasing/verification.h"
#include "report/text/time_line.h"

namespace devtrace::report {
namespace {

size_t longest_run(std::string_view text, char c) {
  size_t longest = 0, run = 0;
  for (const char each : text) {
    run = each == c ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

std::string code(std::string_view raw) {
  return markdown_code(raw);
}
std::string cell(std::string text) {
  return markdown_cell(std::move(text));
}

std::string block(std::string_view language, std::string_view raw) {
  std::string text = printable(raw, true);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::string fence(std::max<size_t>(3, longest_run(text, '`') + 1), '`');
  return fmt::format("{}{}\n{}\n{}\n", fence, language, text, fence);
}

// Text outside of code: nothing in it may become a heading, a link, a tag or a mention.
std::string prose(std::string_view raw) {
  std::string out;
  for (const char c : without_mentions(printable(raw))) {
    if (std::string_view("\\`*_[]<>#~@&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// A name in the line of HTML by which a part is opened: there, too, nobody is to be mentioned.
std::string summary_code(std::string_view raw) {
  return fmt::format("<code>{}</code>", html_escaped(printable(raw)));
}

void stack(std::string& out, std::string_view title, const Json& frames, std::string_view cwd) {
  if (frames.empty()) return;
  std::string text;
  for (const Json& frame : frames) {
    text += fmt::format("{} {}\n", flag(frame, "project") ? ">" : " ", place(frame, cwd));
    if (const auto source = string(frame, "source"); !source.empty() && flag(frame, "project")) {
      text += fmt::format("      {}\n", dedented(source.substr(0, source.find('\n'))));
    }
  }
  out += fmt::format("<details><summary>{}</summary>\n\n{}\n</details>\n\n", title, block("text", text));
}

void moments(std::string& out, const Json& process, const Json& finding, std::string_view cwd) {
  const auto all = time_line(finding, cwd);
  if (all.size() < 2) return;
  const bool one =
      std::all_of(all.begin(), all.end(), [&](const Moment& each) { return each.thread == all[0].thread; });
  const double start = std::min(number(process, "started").value_or(all[0].time), all[0].time);
  std::string text;
  for (const Moment& each : all)
    text += fmt::format("{:>+10.3f} s  {}{}{}\n", each.time - start, one ? "" : fmt::format("thread {}  ", each.thread),
                        each.what, each.place.empty() ? "" : fmt::format("  {}", each.place));
  out += fmt::format("<details><summary>Time line</summary>\n\n{}\n</details>\n\n", block("text", text));
}

std::string versions(const Json& process) {
  std::string out;
  for (const char* key : {"python", "torch", "cuda_runtime", "devtrace"}) {
    if (const auto version = string(process, key); !version.empty()) {
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", key, prose(version));
    }
  }
  return out;
}

}  // namespace

std::string without_mentions(std::string_view raw) {
  constexpr const char* kNoWidth = "\u200b";
  std::string out;
  for (size_t at = 0; at < raw.size(); ++at) {
    const char c = raw[at];
    out += c;
    const char next = at + 1 < raw.size() ? raw[at + 1] : ' ';
    if ((std::string_view("@#!&").find(c) != std::string_view::npos &&
         std::isalnum(static_cast<unsigned char>(next))) ||
        raw.substr(at, 3) == "://")
      out += kNoWidth;
  }
  return out;
}

std::string markdown_code(std::string_view raw) {
  const std::string text = printable(raw);
  if (text.empty()) return {};
  const std::string fence(longest_run(text, '`') + 1, '`');
  const char* pad = text.front() == '`' || text.back() == '`' ? " " : "";
  return fence + pad + text + pad + fence;
}

std::string markdown_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string markdown(const Json& process, const Json& finding) {
  const std::string_view cwd = string(process, "cwd");
  const Json& frame = user_frame_of(finding);
  const char* const language = string(frame, "module").empty() ? "python" : "cpp";
  const Json& cause = object(finding, "cause");

  std::string out = fmt::format("### {}\n\n", prose(headline(finding)));
  if (flag(process, "rehearsal")) out += "*Seen in a rehearsal: the devices were simulated.*\n\n";
  if (is_note(finding)) out += "*A note, not a fault.*\n\n";
  if (!frame.empty()) {
    const auto source = string(frame, "source");
    out += fmt::format("At {}{}\n\n", code(place(frame, cwd)), source.empty() ? "." : ":");
    if (!source.empty()) out += block(language, dedented(source)) + '\n';
    if (const auto hint = without_lines(frame); !hint.empty()) out += fmt::format("{}\n\n", hint);
  }
  if (const auto message = string(finding, "message"); !message.empty()) out += block("text", message) + '\n';

  const Json operands = operands_and_sources(finding);
  if (!operands.empty()) {
    out += "| operand | device | what | created | last moved |\n|---|---|---|---|---|\n";
    for (const Json& operand : operands) {
      const auto origin = [&](const char* event) {
        const Json& at = user_frame_of(object(operand, event));
        if (at.empty() && std::string_view(event) == "created" && flag(operand, "before_attach"))
          return std::string("before devtrace was attached");
        if (at.empty()) return std::string();
        const bool pooled = std::string_view(event) == "created" && !string(operand, "pool").empty();
        return pooled ? fmt::format("{} at {}", made_by(operand), code(place(at, cwd))) : code(place(at, cwd));
      };
      out += fmt::format("| {} | {} | {} | {} | {} |\n", cell(code(name_of(operand))),
                         cell(code(string(operand, "device"))),
                         cell(prose(extent_of(operand) + (role_of(operand).empty() ? "" : ", " + role_of(operand)))),
                         cell(origin("created")), cell(origin("moved")));
    }
    out += '\n';
  }

  if (const auto because = string(cause, "because"); !because.empty()) {
    out += fmt::format("**Why** ({} confidence): {}\n\n", prose(string(cause, "confidence")), prose(because));
  }
  if (const auto fix = string(cause, "fix"); !fix.empty()) {
    out += string(cause, "file").empty() ? "**Fix**" : fmt::format("**Fix** at {}", code(location(cause, cwd)));
    if (const auto what = repairs(cause); !what.empty()) out += fmt::format(" ({})", what);
    out += ":\n\n" + block(language, fix) + '\n';
    for (const Json& edit : array(cause, "also"))
      out += fmt::format("and at {}:\n\n{}\n", code(location(edit, cwd)), block(language, string(edit, "fix")));
  } else if (!string(cause, "file").empty()) {
    out += fmt::format("**Change** {}\n\n", code(location(cause, cwd)));
  }
  if (const auto [label, words] = verification_of(finding); !words.empty())
    out += fmt::format("**{}{}**: {}\n\n", static_cast<char>(std::toupper(label[0])), label.substr(1), prose(words));

  stack(out, "Failing call", frames_of(finding), cwd);
  for (const Json& operand : operands) {
    const std::string name = summary_code(name_of(operand));
    stack(out, fmt::format("{} {}", string(operand, "pool").empty() ? "Creation of" : "The pool's memory of", name),
          frames_of(object(operand, "created")), cwd);
    stack(out, fmt::format("Last move of {}", name), frames_of(object(operand, "moved")), cwd);
  }
  const Json& choice = object(finding, "device_choice");
  stack(out, fmt::format("Choice of {} as the current device", summary_code(string(finding, "current_device"))),
        frames_of(choice), cwd);
  moments(out, process, finding, cwd);
  if (!is_note(finding))
    out += fmt::format("<details><summary>Suppress</summary>\n\n{}\n</details>\n\n",
                       block("text", suppression_entry(process, finding)));
  out += fmt::format("<sub>devtrace fingerprint {}{}{}</sub>\n", code(string(finding, "fingerprint")),
                     versions(process).empty() ? "" : "; ", versions(process));
  return out;
}

std::string traffic_markdown(const Json& process, const Traffic& traffic) {
  if (traffic.empty()) return {};
  const auto sites = traffic.call_sites(process);
  const Traffic::Sum all = Traffic::sum(sites);
  std::string out = fmt::format("### Traffic between devices\n\n{} in {}, at least {}. {}\n\n", size(all.bytes),
                                copies(all.copies), duration(all.seconds), prose(kTrafficEstimate));
  out += "| from | to | bytes | copies | at least | link |\n|---|---|---:|---:|---:|---|\n";
  for (const auto& row : traffic.pairs(process))
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", cell(code(row.from)), cell(code(row.to)), size(row.bytes),
                       row.copies, duration(row.link.seconds),
                       link_words(row.link, row.bytes) + for_one_token(process, row));
  out += "\n| call site | from | to | bytes | copies | at least |\n|---|---|---|---:|---:|---:|\n";
  for (size_t index = 0; index < std::min(sites.size(), kShownCallSites); ++index) {
    const auto& row = sites[index];
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {} |\n", cell(code(call_site(*row.record, string(process, "cwd")))),
                    cell(code(row.from)), cell(code(row.to)), size(row.bytes), row.copies, duration(row.link.seconds));
  }
  if (sites.size() > kShownCallSites) out += fmt::format("\nAnd {} more call sites.\n", sites.size() - kShownCallSites);
  return out;
}

}  // namespace devtrace::report

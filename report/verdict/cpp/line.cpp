#include "report/verdict/cpp/line.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/cpp_text.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/cpp/origin.h"

namespace devtrace::report::verdict {
namespace {

// A statement of its own, in front of which another one may stand. It is not the second line of one, nor the only
// statement of an `if` without braces, nor the head or all of a function.
bool is_whole_statement(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos || !shape_of(line).is_statement || shape_of(line).open != 0) return false;
  line.remove_prefix(begin);
  for (const std::string_view word : {"if", "else", "for", "while", "do", "case", "default", "}", "?", ":", "."})
    if (line.starts_with(word)) return false;
  return true;
}

std::optional<Fix> before(const Frame& frame, const std::string& statement, Repairs repairs) {
  if (frame.source.empty() || frame.line <= 0 || !is_whole_statement(frame.source)) return std::nullopt;
  return Fix{statement + '\n' + dedented(frame.source), std::string(frame.file), frame.line, repairs};
}

}  // namespace

const Frame* innermost_own(const Stack& native) {
  const auto found = std::find_if(native.begin(), native.end(), [](const Frame& frame) { return frame.project; });
  return found == native.end() ? nullptr : &*found;
}

std::string_view constructed(std::string_view function) {
  const std::string_view name = report::name_in_signature(function);
  // Where each part of the name begins, but for those in template arguments.
  std::vector<size_t> parts{0};
  int nested = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++nested;
    if (name[i] == '>') --nested;
    if (nested == 0 && name.substr(i).starts_with("::")) parts.push_back(i + 2);
  }
  if (parts.size() < 2) return {};
  const std::string_view own = name.substr(parts.back()), type = name.substr(0, parts.back() - 2);
  const std::string_view last = type.substr(parts[parts.size() - 2]);
  const auto plain = [](std::string_view text) { return text.substr(0, text.find('<')); };
  return !own.empty() && plain(own) == plain(last) ? type : std::string_view();
}

const Frame* innermost_outside_wrappers(const Event& made) {
  const Frame* const innermost = innermost_own(made.native);
  const Frame* const chosen = innermost_own(made.choice.native);
  for (const Frame& frame : made.native) {
    if (!frame.project) continue;
    if (constructed(frame.function).empty() || (chosen && chosen->same_function(frame))) return &frame;
  }
  return innermost;
}

bool is_plain_expression(std::string_view text) {
  if (text.empty() || text.find("--") != text.npos || text.find("++") != text.npos) return false;
  int subscripts = 0;
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    subscripts += c == '[' ? 1 : c == ']' ? -1 : 0;
    const std::string_view marks = subscripts > 0 ? "_.->[]: +*%" : "_.->[]:";
    return std::isalnum(c) || marks.find(static_cast<char>(c)) != marks.npos;
  });
}

bool may_be_said_twice(std::string_view text) {
  for (const std::string_view change : {"++", "--", "="})
    if (text.find(change) != text.npos) return false;
  for (size_t at = text.find('('); at != text.npos; at = text.find('(', at + 1))
    if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '>')) return false;
  return !text.empty();
}

std::optional<Fix> around_statement(const Frame& frame, std::string_view in_front, std::string_view behind) {
  if (frame.source.empty() || frame.line <= 0 || shape_of(frame.source).open != 0) return std::nullopt;
  const std::string line = dedented(frame.source);
  const auto all = [&](std::string_view statement) { return fmt::format("{}{}\n{}", in_front, statement, behind); };
  const auto fix = [&](std::string code) { return Fix{std::move(code), std::string(frame.file), frame.line}; };
  if (line.starts_with("if (")) {
    const size_t end = behind_bracket(code_of(line), 3);
    if (end == line.npos || !shape_of(line).is_statement || shape_of(line).braces != 0) return std::nullopt;
    const std::string_view statement = trimmed(std::string_view(line).substr(end));
    if (!is_whole_statement(statement)) return std::nullopt;
    return fix(fmt::format("{} {{\n{}\n}}", line.substr(0, end), all(statement)));
  }
  if (!is_whole_statement(line)) return std::nullopt;
  // What stands above and ends in no statement is the head of this one.
  const auto lines = lines_of(std::string(frame.file));
  const size_t above = static_cast<size_t>(frame.line) - 2;
  const bool alone = frame.line > 1 && above < lines.size() && !shape_of(lines[above]).ends;
  return fix(alone ? fmt::format("{{\n{}\n}}", all(line)) : all(line));
}

std::optional<Fix> statement_before(const Frame& frame, const std::string& statement) {
  return before(frame, statement, Repairs::line);
}

std::optional<Fix> set_device_before(const Frame& frame, std::string_view argument) {
  return before(frame, fmt::format("cudaSetDevice({});", argument), Repairs::line);
}

std::optional<Fix> device_of_pointer_before(const Frame& frame, std::string_view pointer) {
  return before(frame,
                fmt::format("cudaPointerAttributes {0};\ncudaPointerGetAttributes(&{0}, {1});\n"
                            "cudaSetDevice({0}.device);",
                            free_name(frame, "owner"), pointer),
                Repairs::line);
}

std::optional<Fix> device_of_stream_before(const Frame& frame, std::string_view stream) {
  return before(
      frame,
      fmt::format("int {0};\ncudaStreamGetDevice({1}, &{0});\ncudaSetDevice({0});", free_name(frame, "owner"), stream),
      Repairs::line);
}

std::optional<Fix> peer_access_before(const Frame& frame, const Operand& memory) {
  if (owner_said_by(memory.created.call)) return std::nullopt;
  const std::string words = device_words({memory.device, memory.created.choice, nullptr, memory.name}, frame);
  return before(frame,
                fmt::format("cudaDeviceEnablePeerAccess({}, 0);", words.empty() ? ordinal_of(memory.device) : words),
                Repairs::line);
}

std::optional<Fix> with_argument(const Frame& frame, std::string_view function, size_t argument, std::string_view by) {
  const auto call = only_call(frame.source, function);
  if (!call || argument >= call->arguments.size()) return std::nullopt;
  const std::string_view old = call->arguments[argument];
  std::string code(frame.source);
  code.replace(static_cast<size_t>(old.data() - frame.source.data()), old.size(), by);
  return line_fix(frame, dedented(code));
}

}  // namespace devtrace::report::verdict

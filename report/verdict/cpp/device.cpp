#include "report/verdict/cpp/device.h"

#include <algorithm>
#include <atomic>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/cpp_scope.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp/line.h"

namespace devtrace::report::verdict {
namespace {

constexpr std::string_view kSetsContext[] = {"cuCtxSetCurrent", "cuCtxPushCurrent"};

// What a line gives to the function that chooses; of a guard's constructor what its object is made of.
std::string_view argument_of(const DeviceChoice& choice) {
  const Frame* inner = nullptr;
  for (const Frame& frame : choice.native) {
    if (!frame.project) continue;
    if (inner) {
      const std::string_view type = constructed(inner->function);
      const size_t open = frame.source.find_first_of("({");
      if (type.empty() || open == frame.source.npos) return {};
      const size_t close = frame.source.find_last_of(")}");
      if (close == frame.source.npos || close < open) return {};
      const auto given = split_arguments(std::string_view(frame.source).substr(open + 1, close - open - 1));
      return given.size() == 1 ? given[0] : std::string_view();
    }
    for (const std::string_view function : {std::string_view("cudaSetDevice"), kSetsContext[0], kSetsContext[1]})
      if (const auto call = only_call(frame.source, function); call && call->arguments.size() == 1) {
        if (constructed(frame.function).empty()) return call->arguments[0];
        inner = &frame;
      }
    if (!inner) return {};
  }
  return {};
}

bool sets_context(const DeviceChoice& choice) {
  const Frame* line = innermost_own(choice.native);
  return line && std::ranges::any_of(kSetsContext, [&](std::string_view each) { return calls(line->source, each); });
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

constinit std::atomic<SourceLines> source_lines{nullptr};

// What the line's scope can say for a device.
std::vector<std::string> expressions(const Frame& line) {
  return device_expressions(lines_of(line.file), static_cast<int>(line.line));
}

// `device` of `layer->device`.
std::string_view last_part(std::string_view expression) {
  const size_t at = expression.find_last_of(".>");
  return at == expression.npos ? expression : expression.substr(at + 1);
}

// `Workspace` of `Workspace::add(float const*)`.
std::string_view class_of(std::string_view function) {
  const std::string_view name = name_in_signature(function);
  const size_t at = name.rfind("::");
  return at == name.npos ? std::string_view() : name.substr(0, at);
}

// The number of the line where a loop around the frame's line begins whose variable that is; 0: of none. Behind the
// loop the variable is gone, and it means another device at its next turn.
int64_t loop_of(std::string_view name, const Frame& frame) {
  std::string_view text = frame.around.text;
  int64_t found = 0;
  for (int64_t line = frame.around.line; line <= frame.line && !text.empty(); ++line) {
    const std::string_view head = text.substr(0, text.find('\n'));
    if (const size_t loop = head.find("for ("); loop != head.npos && has_word(head.substr(loop), name)) found = line;
    text.remove_prefix(std::min(text.size(), head.size() + 1));
  }
  return found;
}

}  // namespace

void read_sources_by(SourceLines lines) {
  source_lines.store(lines, std::memory_order_relaxed);
}

std::vector<std::string> lines_of(const std::string& file) {
  const SourceLines read = source_lines.load(std::memory_order_relaxed);
  return read ? read(file) : std::vector<std::string>();
}

std::string free_name(const Frame& line, std::string name) {
  const SourceLines read = source_lines.load(std::memory_order_relaxed);
  const auto all = read ? read(std::string(line.file)) : std::vector<std::string>{line.around.text};
  while (std::ranges::any_of(all, [&](const std::string& each) { return has_word(each, name); })) name += '_';
  return name;
}

std::string ordinal_of(std::string_view device) {
  return std::string(device.substr(device.find(':') + 1));
}

std::string device_words(const WantedDevice& wanted, const Frame& line) {
  const std::vector<std::string> known = expressions(line);
  const std::string_view instead = wanted.instead ? argument_of(*wanted.instead) : std::string_view();
  const Frame* chosen_at = innermost_own(wanted.chosen.native);
  const bool chose_it = wanted.chosen.device.empty() || wanted.chosen.device == wanted.device;
  const std::string_view argument = chose_it && chosen_at ? argument_of(wanted.chosen) : std::string_view();
  const auto differs = [&](std::string_view words) {
    const Frame* other = wanted.instead ? innermost_own(wanted.instead->native) : nullptr;
    return words != instead || !other || !other->same_function(line) ||
           loop_of(root_of(words), *other) != loop_of(root_of(words), line);
  };
  if (!argument.empty() && is_plain_expression(argument) && !is_number(argument) && differs(argument)) {
    const bool here = chosen_at->same_function(line);
    const std::string_view root = root_of(argument);
    const bool over = loop_of(root, *chosen_at) != 0 && !(loop_of(root, line) != 0 && has_word(line.source, root));
    const bool of_class = !class_of(line.function).empty() &&
                          class_of(line.function) == class_of(chosen_at->function) &&
                          (root.ends_with('_') || argument.starts_with("this->"));
    const bool is_known = std::ranges::find(known, argument) != known.end();
    if (!over && (is_known || of_class || (here && (sets_context(wanted.chosen) || known.empty()))))
      return std::string(argument);
  }
  if (sets_context(wanted.chosen)) return {};
  if (const std::string_view root = root_of(wanted.pointer); !root.empty() && root.size() < wanted.pointer.size())
    for (const std::string& each : known)
      if (root_of(each) == root && each.size() > root.size()) return each;
  std::string found;
  for (const std::string& each : known) {
    if (is_number(each) || !differs(each)) continue;
    const bool same_part = !argument.empty() && last_part(each) == last_part(argument);
    if (same_part) return each;
    // Of several nobody knows which one is meant.
    if (!found.empty()) return {};
    found = each;
  }
  return wanted.instead && wanted.instead->by_default ? found : std::string();
}

std::optional<Fix> chosen_before(const Frame& line, const WantedDevice& wanted, std::string_view words) {
  if (!sets_context(wanted.chosen)) return set_device_before(line, words);
  return is_number(words) ? std::nullopt : statement_before(line, fmt::format("cuCtxSetCurrent({});", words));
}

std::optional<Fix> put_back(const DeviceChoice& choice) {
  const Frame* line = innermost_own(choice.native);
  if (!line || unqualified_name(line->function).find('~') == std::string::npos) return std::nullopt;
  const std::string_view given = argument_of(choice);
  for (const std::string& each : expressions(*line)) {
    std::string name = each;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const std::string_view kept : {"prev", "old", "orig", "saved", "last", "before", "restore", "initial"})
      if (each != given && name.find(kept) != name.npos) return with_argument(*line, "cudaSetDevice", 0, each);
  }
  return std::nullopt;
}

}  // namespace devtrace::report::verdict

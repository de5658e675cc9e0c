#include "report/phrasing/cpp_launch.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "common/text.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/cpp_text.h"
#include "report/phrasing/signature.h"

namespace devtrace::report {
namespace {

constexpr size_t kNone = -1;

// CUDA's functions that launch a kernel, and which of their arguments is what.
struct LaunchFunction {
  std::string_view name;
  size_t array;              // addresses of the kernel's arguments
  size_t stream = kNone;     // on which it is launched
  size_t node = kNone;       // a structure whose `kernelParams` is the array
  size_t first_own = kNone;  // the kernel's own arguments begin there
};
constexpr LaunchFunction kLaunching[] = {
    {"cudaLaunchKernel", 3, 5},
    {"cudaLaunchCooperativeKernel", 3, 5},
    {"cudaLaunchKernelExC", 2},
    {"cudaLaunchKernelEx", kNone, kNone, kNone, 2},
    {"cuLaunchKernel", 9, 8},
    {"cuLaunchCooperativeKernel", 9, 8},
    {"cuLaunchKernelEx", 2},
    {"cudaGraphAddKernelNode", kNone, kNone, 4},
    {"cuGraphAddKernelNode", kNone, kNone, 4},
    {"cudaGraphAddNode", kNone, kNone, 4},
    {"cuGraphAddNode", kNone, kNone, 4},
    {"cudaGraphKernelNodeSetParams", kNone, kNone, 1},
    {"cuGraphKernelNodeSetParams", kNone, kNone, 1},
    {"cudaGraphExecKernelNodeSetParams", kNone, kNone, 2},
    {"cuGraphExecKernelNodeSetParams", kNone, kNone, 2},
};

// `x` of `&x`, `(void*)&x`, `static_cast<void*>(&x)`, `std::addressof(x)`; empty for what takes no address.
std::string_view pointed_to(std::string_view text) {
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    if (text.front() == '&') return trimmed(text.substr(1));
    if (text.front() == '(') {
      const size_t behind = behind_bracket(text, 0);
      if (behind == text.npos) return {};
      text = behind == text.size() ? text.substr(1, text.size() - 2) : text.substr(behind);
      continue;
    }
    const size_t open = text.find('(');
    if (open == text.npos || text.back() != ')') return {};
    const std::string_view function = text.substr(0, open), inner = text.substr(open + 1, text.size() - open - 2);
    if (function.ends_with("addressof")) return trimmed(inner);
    if (function.find("_cast<") == function.npos) return {};
    text = inner;
  }
  return {};
}

// Behind the last place where the text gives `name` a value: `name = `, `name[] = `, `name{`.
size_t behind_last_value(std::string_view code, std::string_view name) {
  size_t found = code.npos;
  for (size_t at = 0; (at = code.find(name, at)) != code.npos; at += name.size()) {
    size_t next = at + name.size();
    if ((at > 0 && is_word(code[at - 1])) || (next < code.size() && is_word(code[next]))) continue;
    next = skip_blanks(code, next);
    if (next < code.size() && code[next] == '[') {
      const size_t behind = behind_bracket(code, next);
      if (behind == code.npos) continue;
      next = skip_blanks(code, behind);
    }
    if (next + 1 < code.size() && code[next] == '=' && code[next + 1] != '=') found = skip_blanks(code, next + 1);
    if (next < code.size() && code[next] == '{') found = next;
  }
  return found;
}

std::vector<std::string> elements(std::string_view list) {
  std::vector<std::string> found;
  for (const std::string_view each : split_arguments(list)) found.emplace_back(pointed_to(each));
  if (!found.empty() && found.back().empty() && trimmed(list).ends_with(',')) found.pop_back();
  return found;
}

// What the array points to that an expression names: `args`, `args.data()`, `&args[0]`, a list in braces.
std::vector<std::string> pointed_to_by(std::string_view above, std::string_view array) {
  array = trimmed(array);
  if (array.starts_with('&')) array.remove_prefix(1);
  const std::string code = code_of(above);
  const auto braces = [&](std::string_view text, size_t open) -> std::vector<std::string> {
    const size_t behind = behind_bracket(code_of(text), open);
    if (behind == text.npos) return {};
    const std::string_view inner = trimmed(text.substr(open + 1, behind - open - 2));
    // std::array<void*, 2> args = {{&a, &b}}
    return inner.starts_with('{') && inner.ends_with('}') ? elements(inner.substr(1, inner.size() - 2))
                                                          : elements(inner);
  };
  if (const size_t open = array.find('{'); open != array.npos) return braces(array, open);
  if (array.ends_with(')') && array.find("_cast<") != array.npos) {
    const size_t open = array.find('(');
    return pointed_to_by(above, array.substr(open + 1, array.size() - open - 2));
  }
  size_t end = 0;
  while (end < array.size() && is_word(array[end])) ++end;
  const size_t value = end == 0 ? code.npos : behind_last_value(code, array.substr(0, end));
  return value < code.size() && code[value] == '{' ? braces(above, value) : std::vector<std::string>();
}

// The text that gives `node`'s member its value.
std::string_view member_value(std::string_view above, std::string_view member) {
  const std::string code = code_of(above);
  const size_t at = behind_last_value(code, member);
  const size_t end = at == code.npos ? at : code.find(';', at);
  return end == code.npos ? std::string_view() : trimmed(above.substr(at, end - at));
}

}  // namespace

std::vector<std::string> launch_arguments(std::string_view above, std::string_view statement, std::string_view kernel) {
  if (const auto call = only_call(statement, kernel); call && !call->configuration.empty())
    return {call->arguments.begin(), call->arguments.end()};
  for (const LaunchFunction& function : kLaunching) {
    const auto call = only_call(statement, function.name);
    if (!call) continue;
    const auto& given = call->arguments;
    if (function.array < given.size()) return pointed_to_by(above, given[function.array]);
    if (function.node < given.size()) return pointed_to_by(above, member_value(above, "kernelParams"));
    if (function.first_own < given.size())
      return {given.begin() + static_cast<ptrdiff_t>(function.first_own), given.end()};
  }
  return {};
}

std::string_view stream_of_launch(std::string_view statement, std::string_view kernel) {
  if (const auto call = only_call(statement, kernel); call && !call->configuration.empty()) {
    const auto written = split_arguments(call->configuration);
    return written.size() == 4 ? written[3] : std::string_view();
  }
  for (const LaunchFunction& function : kLaunching)
    if (const auto call = only_call(statement, function.name); call && function.stream < call->arguments.size())
      return call->arguments[function.stream];
  return {};
}

}  // namespace devtrace::report

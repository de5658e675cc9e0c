#include "report/phrasing/cpp_made.h"

#include <string>

#include "common/text.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/cpp_text.h"
#include "report/phrasing/signature.h"

namespace devtrace::report {
namespace {

// CUDA's functions write the address to where their first argument points.
std::string_view given_to_cuda(std::string_view statement, std::string_view code) {
  size_t at = 0;
  for (const std::string_view function : {"cudaMalloc", "cuMemAlloc", "cuMemAddressReserve", "cudaHostAlloc"}) {
    at = code.find(function);
    if (at != code.npos) break;
  }
  if (at == code.npos) return {};
  const size_t open = code.find('(', at), behind = open == code.npos ? open : behind_bracket(code, open);
  if (behind == code.npos) return {};
  const auto arguments = split_arguments(statement.substr(open + 1, behind - open - 2));
  if (arguments.empty()) return {};
  const size_t address = arguments[0].find('&');
  if (address == arguments[0].npos) return arguments[0];
  std::string_view name = trimmed(arguments[0].substr(address + 1));
  while (name.ends_with(')') && name.find('(') == name.npos) name = trimmed(name.substr(0, name.size() - 1));
  return name;
}

// `x` of `const float* x`, and `a->x` as it is; empty for what has no name.
std::string_view declared(std::string_view text) {
  text = trimmed(text);
  size_t begin = text.size();
  while (begin > 0 && !is_blank(text[begin - 1]) && text[begin - 1] != '*' && text[begin - 1] != '&') --begin;
  return text.substr(begin);
}

}  // namespace

std::string_view made_name(std::string_view statement) {
  const std::string code = code_of(statement);
  if (const auto name = given_to_cuda(statement, code); !name.empty()) return name;
  int depth = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '(' || c == '[' || c == '<') ++depth;
    if (c == ']' || c == '>') --depth;
    const bool assigns = c == '=' && i > 0 &&
                         std::string_view("=<>!+-*/").find(code[i - 1]) == std::string_view::npos &&
                         code.substr(i + 1, 1) != "=";
    if (depth == 0 && assigns) return declared(statement.substr(0, i));
    if (depth > 1 || (c != '(' && c != '{')) continue;
    // A declaration with what its constructor takes: there is a type in front of the name.
    const std::string_view before = trimmed(statement.substr(0, i));
    const std::string_view name = declared(before);
    const bool typed =
        name.size() < before.size() && name.find_first_of(".:(>") == name.npos && !before.starts_with("return");
    return typed ? name : std::string_view();
  }
  return {};
}

}  // namespace devtrace::report

#include "report/phrasing/signature.h"

#include <algorithm>

#include "common/text.h"

namespace devtrace::report {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)";

// Behind the bracket that closes the one at `open`; npos for none.
size_t behind_closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '{') ++depth;
    if ((text[i] == ')' || text[i] == '}') && --depth == 0) return i + 1;
  }
  return text.npos;
}

// What is defined in a function has that one's signature in front: where it ends, if the parameters at `open` are of
// such a function. 0: they are not.
size_t behind_enclosing(std::string_view signature, size_t open) {
  const size_t behind = behind_closing(signature, open);
  if (behind == signature.npos) return 0;
  std::string_view rest = signature.substr(behind);
  for (const std::string_view qualifier : {" const", " volatile", " &&", " &"})
    if (rest.starts_with(qualifier)) rest.remove_prefix(qualifier.size());
  constexpr std::string_view kInside = "::";
  return rest.starts_with(kInside) ? signature.size() - rest.size() + kInside.size() : 0;
}

// Where the name begins, what of it is behind the functions that it is defined in, and the bracket behind it; npos for
// none.
struct Name {
  size_t begin = 0, inner = 0;
  size_t end = std::string_view::npos;
};

Name find_name(std::string_view signature) {
  Name name;
  int depth = 0;
  for (size_t i = 0; i < signature.size(); ++i) {
    const char c = signature[i];
    const bool of_operator = signature.substr(0, i).find("operator", name.inner) != std::string_view::npos &&
                             signature.substr(name.inner, i - name.inner).find('(') == std::string_view::npos;
    if (c == '<' && !of_operator) ++depth;
    if (c == '>' && !of_operator && depth > 0) --depth;
    if (depth > 0) continue;
    if (c == ' ' && !of_operator) name.begin = name.inner = i + 1;
    if (c == '{') {  // {lambda(int)#1}
      const size_t behind = behind_closing(signature, i);
      if (behind == signature.npos) break;
      i = behind - 1;
      continue;
    }
    if (c != '(') continue;
    if (signature.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    if (signature.substr(name.begin, i - name.begin).ends_with("operator")) continue;  // operator()
    if (const size_t inner = behind_enclosing(signature, i); inner != 0) {
      name.inner = inner;
      i = inner - 1;
      continue;
    }
    name.end = i;
    break;
  }
  return name;
}

// Whether the name of an operator's function begins there; not that of `operators`.
bool is_operator(std::string_view text) {
  constexpr std::string_view kWord = "operator";
  return text.starts_with(kWord) && text.size() > kWord.size() && text[kWord.size()] != '_' &&
         !std::isalnum(static_cast<unsigned char>(text[kWord.size()]));
}

}  // namespace

std::string_view name_in_signature(std::string_view signature) {
  const Name name = find_name(signature);
  return signature.substr(name.begin, std::min(name.end, signature.size()) - name.begin);
}

std::string unqualified_name(std::string_view signature) {
  const Name found = find_name(signature);
  const std::string_view name = signature.substr(found.inner, std::min(found.end, signature.size()) - found.inner);
  int depth = 0;
  size_t begin = 0, end = name.size();
  for (size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && is_operator(name.substr(i))) {
      // Demanglers put a blank between the sign and template arguments where they would run together.
      const size_t sign = i + std::string_view("operator").size();
      const size_t angle = name[sign] == '<' ? name.find(" <", sign) : name.find('<', sign);
      return std::string(name.substr(i, angle - i));
    }
    if (depth == 0 && name[i] == ':') begin = i + 1, end = name.size();
    if (name[i] == '<' && depth++ == 0) end = i;
    if (name[i] == '>' && depth > 0) --depth;
  }
  return std::string(name.substr(begin, end - begin));
}

std::string short_name_in_signature(std::string_view signature) {
  constexpr size_t kLongest = 40;
  const std::string_view name = name_in_signature(signature);
  std::string out;
  size_t opened = 0;  // in `out`
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && is_operator(name.substr(i))) return out.append(name.substr(i));
    if (name[i] == '<' && depth++ == 0) opened = out.size();
    out += name[i];
    const bool arrow = i > 0 && name[i - 1] == '-';
    if (name[i] == '>' && !arrow && depth > 0 && --depth == 0 && out.size() - opened > kLongest)
      out.replace(opened, out.npos, "<…>");
  }
  return out;
}

std::vector<std::string_view> parameter_types(std::string_view signature) {
  const Name name = find_name(signature);
  if (name.end == std::string_view::npos) return {};
  std::string_view rest = signature.substr(name.end + 1);
  int depth = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '(') ++depth;
    if (rest[i] == ')' && depth-- == 0) return split_arguments(rest.substr(0, i));
  }
  return {};
}

std::vector<std::string_view> split_arguments(std::string_view arguments) {
  std::vector<std::string_view> found;
  int depth = 0;
  size_t start = 0;
  char quote = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const char c = arguments[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
      continue;
    }
    const bool arrow = c == '>' && i > 0 && arguments[i - 1] == '-';
    if (c == '"' || c == '\'') quote = c;
    if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
    if ((c == ')' || c == ']' || c == '}' || (c == '>' && !arrow)) && depth > 0) --depth;
    if (c != ',' || depth > 0) continue;
    found.push_back(trimmed(arguments.substr(start, i - start)));
    start = i + 1;
  }
  const std::string_view last = trimmed(arguments.substr(start));
  if (!last.empty() || !found.empty()) found.push_back(last);
  return found;
}

}  // namespace devtrace::report

#include "report/phrasing/cpp_scope.h"

#include <algorithm>
#include <map>

#include "common/text.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/cpp_text.h"

namespace devtrace::report {
namespace {

constexpr int kMostLines = 400;
constexpr size_t kMostExpressions = 8;

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

// `device_`, `gpuId`, `dev`, `src_device`; no number of devices, and no list of them.
bool is_called_after_a_device(std::string_view name) {
  std::string word = lower(name);
  while (word.ends_with('_')) word.pop_back();
  for (const std::string_view many : {"count", "num", "total", "size", "prop", "name", "max", "attr", "ndev", "ngpu"})
    if (word.find(many) != word.npos) return false;
  for (const std::string_view end : {"id", "_id", "index", "_index", "idx", "_idx", "no", "_no", "ordinal", "_ordinal"})
    if (word.size() > end.size() + 2 && word.ends_with(end) && !word.ends_with(std::string("s") + std::string(end))) {
      word.resize(word.size() - end.size());
      break;
    }
  while (word.ends_with('_')) word.pop_back();
  return word.ends_with("device") || word.ends_with("gpu") || word == "dev" || word.ends_with("_dev");
}

// Each name that the code declares as a whole number: use(name, where it stands).
template <class Use>
void for_each_integer(std::string_view code, const Use& use) {
  for (const std::string_view type :
       {"int", "int32_t", "int64_t", "unsigned", "size_t", "CUdevice", "DeviceIndex", "auto"})
    for (size_t at = 0; (at = code.find(type, at)) != code.npos; at += type.size()) {
      const size_t behind = at + type.size();
      if ((at > 0 && is_word(code[at - 1])) || behind >= code.size() ||
          !(is_blank(code[behind]) || code[behind] == '&'))
        continue;
      size_t begin = skip_blanks(code, behind);
      if (begin < code.size() && code[begin] == '&') begin = skip_blanks(code, begin + 1);
      size_t end = begin;
      while (end < code.size() && is_word(code[end])) ++end;
      const size_t next = skip_blanks(code, end);
      if (end > begin && next < code.size() && std::string_view("=;,){:").find(code[next]) != std::string_view::npos)
        use(code.substr(begin, end - begin), at);
    }
}

// A whole number in a structure or class of the file, and where the text of that is.
struct Member {
  std::string type, name;
  size_t begin, end;
  bool is_around(size_t place) const { return begin < place && place < end; }
  // Who has such an object can say it, as far as names tell.
  bool is_private() const { return name.ends_with('_'); }
};
std::vector<Member> members(const std::string& code) {
  std::vector<Member> found;
  for (const std::string_view word : {"struct", "class"})
    for (size_t at = 0; (at = code.find(word, at)) != code.npos; at += word.size()) {
      if ((at > 0 && is_word(code[at - 1])) || !is_blank(code[std::min(at + word.size(), code.size() - 1)])) continue;
      const size_t name = skip_blanks(code, at + word.size());
      size_t end = name;
      while (end < code.size() && is_word(code[end])) ++end;
      const size_t open = code.find_first_of("{;()", end);
      if (end == name || open == code.npos || code[open] != '{') continue;
      const size_t close = behind_bracket(code, open);
      if (close == code.npos) continue;
      for_each_integer(std::string_view(code).substr(open, close - open), [&](std::string_view member, size_t place) {
        // Not a function's variable or parameter: no bracket is open but the structure's own.
        int depth = 0;
        for (size_t i = open; i < open + place; ++i) {
          if (code[i] == '{' || code[i] == '(') ++depth;
          if (code[i] == '}' || code[i] == ')') --depth;
        }
        if (depth == 1) found.push_back({code.substr(name, end - name), std::string(member), open, close});
      });
    }
  return found;
}

// Variables of that type that the scope declares: `layer.` of `Layer& layer`, `shard->` of `const Shard* shard`.
void add_members(std::string_view scope, const Member& member, std::vector<std::pair<size_t, std::string>>& found) {
  for (size_t at = 0; (at = scope.find(member.type, at)) != scope.npos; at += member.type.size()) {
    size_t next = at + member.type.size();
    if ((at > 0 && is_word(scope[at - 1])) || next >= scope.size() || is_word(scope[next])) continue;
    bool pointer = false;
    while (next < scope.size() && (is_blank(scope[next]) || scope[next] == '&' || scope[next] == '*'))
      pointer |= scope[next++] == '*';
    size_t end = next;
    while (end < scope.size() && is_word(scope[end])) ++end;
    const size_t behind = skip_blanks(scope, end);
    const bool declares =
        behind < scope.size() && std::string_view(";=,){:(").find(scope[behind]) != std::string_view::npos;
    if (end == next || !declares || !std::isalpha(static_cast<unsigned char>(scope[next]))) continue;
    found.emplace_back(at, std::string(scope.substr(next, end - next)) + (pointer ? "->" : ".") + member.name);
  }
}

// Where the code has the name last as a variable, and not as a member of something.
size_t last_variable(std::string_view code, std::string_view name) {
  for (size_t at = code.rfind(name); at != code.npos && !name.empty();
       at = at == 0 ? code.npos : code.rfind(name, at - 1)) {
    const char before = at == 0 ? ' ' : code[at - 1];
    const size_t end = at + name.size();
    if (!is_word(before) && before != '.' && before != '>' && (end == code.size() || !is_word(code[end]))) return at;
  }
  return code.npos;
}

// What a line declares in braces that it closes again is nobody's else.
std::string without_closed_bodies(std::string code) {
  for (size_t open = 0; (open = code.find('{', open)) != code.npos; ++open) {
    const size_t end = std::min(code.find('\n', open), code.size());
    const size_t behind = behind_bracket(std::string_view(code).substr(0, end), open);
    if (behind == code.npos) continue;
    for (size_t i = open + 1; i + 1 < behind; ++i) code[i] = ' ';
  }
  return code;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  return all;
}

}  // namespace

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos && !word.empty(); at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

std::string_view root_of(std::string_view expression) {
  constexpr std::string_view kThis = "this->";
  if (expression.starts_with(kThis)) expression.remove_prefix(kThis.size());
  size_t end = 0;
  while (end < expression.size() && is_word(expression[end])) ++end;
  return expression.substr(0, end);
}

std::string scope_above(const std::vector<std::string>& lines, int line) {
  std::vector<std::string_view> kept;
  int depth = 0;
  for (int at = line - 1; at > 0 && line - at < kMostLines && static_cast<size_t>(at) <= lines.size(); --at) {
    const std::string& text = lines[static_cast<size_t>(at) - 1];
    const std::string code = code_of(text);
    // What is declared in brackets in front of a body that ends in the line has ended with it.
    const size_t body = code.find('{'), head = code.rfind(')', body);
    const bool ended = body != code.npos && head != code.npos && behind_bracket(code, body) != code.npos &&
                       code.find_first_of("=;", head) > body;
    if (depth == 0 && !ended) kept.push_back(text);
    for (auto c = code.rbegin(); c != code.rend(); ++c) {
      if (*c == '}') ++depth;
      if (*c == '{' && depth > 0) --depth;
    }
  }
  std::string scope;
  for (auto each = kept.rbegin(); each != kept.rend(); ++each) scope.append(*each) += '\n';
  return scope;
}

std::vector<std::string> device_expressions(const std::vector<std::string>& lines, int line) {
  if (line <= 0 || static_cast<size_t>(line) > lines.size()) return {};
  const std::string file = code_of(joined(lines)), scope = without_closed_bodies(code_of(scope_above(lines, line)));
  size_t place = 0;
  for (int i = 1; i < line; ++i) place += lines[static_cast<size_t>(i) - 1].size() + 1;
  std::vector<std::pair<size_t, std::string>> found;  // where the scope declares it
  for_each_integer(scope, [&](std::string_view name, size_t at) {
    if (is_called_after_a_device(name)) found.emplace_back(at, name);
  });
  const std::vector<Member> all = members(file);
  for (const Member& member : all) {
    if (!is_called_after_a_device(member.name)) continue;
    if (member.is_around(place)) found.emplace_back(0, member.name);
    if (!member.is_private()) add_members(scope, member, found);
  }
  const auto is_own_member = [&](std::string_view name) {
    return std::ranges::any_of(all, [&](const Member& each) { return each.name == name && each.is_around(place); });
  };
  for (const std::string_view function : {"cudaSetDevice", "cudaGetDevice"})
    for (size_t at = 0; (at = file.find(function, at)) != file.npos; at += function.size()) {
      const size_t open = skip_blanks(file, at + function.size());
      const size_t behind = open < file.size() && file[open] == '(' ? behind_bracket(file, open) : file.npos;
      if (behind == file.npos) continue;
      std::string_view argument = trimmed(std::string_view(file).substr(open + 1, behind - open - 2));
      if (argument.starts_with('&')) argument = trimmed(argument.substr(1));
      const std::string_view root = root_of(argument);
      if (is_own_member(root))
        found.emplace_back(0, argument);
      else if (const size_t at_root = last_variable(scope, root); at_root != scope.npos)
        found.emplace_back(at_root, argument);
    }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (const auto& [at, name] : found)
    if (std::find(names.begin(), names.end(), name) == names.end() && names.size() < kMostExpressions)
      names.push_back(name);
  return names;
}

}  // namespace devtrace::report

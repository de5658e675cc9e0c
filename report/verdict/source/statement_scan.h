// One Python statement as characters: its calls and their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/python_scan.h"
#include "common/text.h"

namespace devtrace::report::verdict {

struct Span {
  size_t begin, end;
};

struct Call {
  size_t name;  // of the called function's last word
  size_t open;  // its parenthesis
  size_t close;
};

// The first place from `at` on that is no white space.
size_t skip_blanks(std::string_view source, size_t at);
// Position of the bracket that closes the one at `open`, or npos.
size_t closing(const Scan& scan, std::string_view source, size_t open);

// Calls whose name (with what is before it, as `torch.` or `.`) is one of those.
template <typename Names>
std::vector<Call> find_calls(std::string_view source, const Scan& scan, std::string_view prefix, const Names& names) {
  std::vector<Call> calls;
  for (const std::string_view name : names) {
    const std::string wanted = std::string(prefix) + std::string(name) + "(";
    for (size_t at = 0; (at = source.find(wanted, at)) != source.npos; ++at) {
      if (!scan.code[at]) continue;
      if (prefix.front() != '.' && at > 0 && (word_char(source[at - 1]) || source[at - 1] == '.')) continue;
      const size_t open = at + wanted.size() - 1;
      if (const size_t close = closing(scan, source, open); close != source.npos) calls.push_back({at, open, close});
    }
  }
  return calls;
}

// Calls for which `wanted(before, name)`, with what stands before the name: `torch.fft.` and `fftfreq`. Of x.f(…) the
// place of the name is the one of x.
template <typename Predicate>
std::vector<Call> find_calls_if(std::string_view source, const Scan& scan, const Predicate& wanted) {
  std::vector<Call> calls;
  for (size_t open = source.find('('); open != source.npos; open = source.find('(', open + 1)) {
    size_t name = open;
    while (name > 0 && word_char(source[name - 1])) --name;
    size_t begin = name;
    while (begin > 0 && (word_char(source[begin - 1]) || source[begin - 1] == '.')) --begin;
    if (!scan.code[open] || !wanted(source.substr(begin, name - begin), source.substr(name, open - name))) continue;
    if (const size_t close = closing(scan, source, open); close != source.npos) calls.push_back({begin, open, close});
  }
  return calls;
}

// What a comprehension gives whose loop begins at `loop`: `f(x)` of `[f(x) for x in y]`, and of `{x: f(x) for x in y}`.
Span element_before(std::string_view source, const Scan& scan, size_t loop);

// The only call of a function that the text has; nothing where there are several, or none.
std::optional<Call> only_call_in(std::string_view source, const Scan& scan, std::string_view function);
// The call's arguments, by commas of its own level.
std::vector<Span> arguments(std::string_view source, const Scan& scan, const Call& call);
// Where one more argument goes: behind the last, before white space and a line's end.
size_t end_of_arguments(std::string_view source, const std::vector<Span>& spans);
// The value of keyword `key` among the arguments.
std::optional<Span> keyword_value(std::string_view source, const std::vector<Span>& spans, std::string_view key);
// The source with `by` in the place of a part.
std::string spliced(std::string_view source, Span span, std::string_view by);

}  // namespace devtrace::report::verdict

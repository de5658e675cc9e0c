// Operands of instructions.
#include <algorithm>
#include <cctype>
#include <utility>

#include "binary/ptx/parser.h"

namespace devtrace::ptx {
namespace {

bool begins_name(std::string_view word) {
  return !word.empty() &&
         (std::isalpha(static_cast<unsigned char>(word[0])) || word[0] == '_' || word[0] == '$' || word[0] == '%');
}

int component_of(std::string_view word) {
  constexpr std::string_view kNames = "xyzwrgba";
  if (word.size() != 2 || word[0] != '.') return -1;
  const size_t at = kNames.find(word[1]);
  return at == kNames.npos ? -1 : static_cast<int>(at % 4);
}

bool is_selector(std::string_view word) {
  return word.size() >= 3 && word.size() <= 6 && (word[1] == 'b' || word[1] == 'h') &&
         word.find_first_not_of("01234567", 2) == word.npos;
}

}  // namespace

bool Parser::find_register(std::string_view name, uint32_t* index) {
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->registers.find(name); found != scope->registers.end()) {
      *index = found->second;
      return true;
    }
    // "%r12", or "r1" + "2" where a range's name ends with a digit.
    for (size_t cut = digits; cut < name.size() && !scope->ranges.empty(); ++cut) {
      const auto range = scope->ranges.find(name.substr(0, cut));
      if (range == scope->ranges.end()) continue;
      const std::string_view number = name.substr(cut);
      if (number.size() > 7 || (number.size() > 1 && number[0] == '0')) continue;
      uint32_t n = 0;
      for (const char c : number) n = n * 10 + static_cast<uint32_t>(c - '0');
      if (n >= range->second.count) continue;
      *index = range->second.first + n;
      return true;
    }
  }
  return false;
}

// What a name stands for, from the innermost scope outwards. Labels and functions may come later.
bool Parser::named(std::string_view name, Operand* out) {
  out->name = name;
  if (find_register(name, &out->index)) {
    out->kind = Operand::Kind::reg;
    return true;
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    for (const auto* names : {&scope->variables, &scope->globals})
      if (const auto found = names->find(name); found != names->end()) {
        out->kind = names == &scope->variables ? Operand::Kind::variable : Operand::Kind::global;
        out->index = found->second;
        return true;
      }
  const auto& parameters = function_->parameters;
  const auto& results = function_->results;
  for (size_t i = 0; i < parameters.size() + results.size(); ++i)
    if ((i < parameters.size() ? parameters[i] : results[i - parameters.size()]).name == name) {
      out->kind = Operand::Kind::parameter;
      out->index = static_cast<uint32_t>(i);
      return true;
    }
  if (const auto found = globals_.find(name); found != globals_.end()) {
    out->kind = Operand::Kind::global;
    out->index = found->second;
    return true;
  }
  if (name == "WARP_SZ") {
    out->kind = Operand::Kind::integer;
    out->value = 32;
    return true;
  }
  out->kind = name[0] == '%' ? Operand::Kind::special : Operand::Kind::name;
  return true;
}

bool Parser::constant(Operand* out, bool negative) {
  const std::optional<Number> n = number();
  if (!n) return fail("expected an operand before");
  out->value = n->bits;
  switch (n->kind) {
    case Number::Kind::integer:
      out->kind = Operand::Kind::integer;
      if (negative) out->value = -out->value;
      break;
    case Number::Kind::real:
      out->kind = Operand::Kind::real;
      if (negative) out->value ^= uint64_t{1} << 63;
      break;
    case Number::Kind::real32:
      out->kind = Operand::Kind::real32;
      if (negative) out->value ^= uint64_t{1} << 31;
      break;
  }
  return true;
}

// After "[": base [+ number] {, what a texture is asked for} ]
bool Parser::address(Operand* out, int depth) {
  out->kind = Operand::Kind::address;
  Operand base;
  if (!operand(&base, depth + 1)) return false;
  // "sym+4" was read as one operand.
  out->value = base.value;
  if (base.kind == Operand::Kind::variable || base.kind == Operand::Kind::parameter ||
      base.kind == Operand::Kind::global)
    base.value = 0;
  else if (base.kind == Operand::Kind::integer)
    out->value = 0;
  if (base.kind == Operand::Kind::reg) base.value = 0;
  out->parts.push_back(std::move(base));
  while (accept(",")) {
    if (!operand(&out->parts.emplace_back(), depth + 1)) return false;
  }
  return expect("]");
}

bool Parser::operands(std::vector<Operand>* into, std::string_view closing, int depth) {
  while (!at_end() && !is(closing)) {
    if (!operand(&into->emplace_back(), depth + 1)) return false;
    if (!accept(",")) break;
  }
  return expect(closing);
}

bool Parser::operand(Operand* out, int depth) {
  if (depth > kMostDepth) return fail("too deep");
  if (accept("!")) {
    if (!operand(out, depth + 1)) return false;
    out->negated = !out->negated;
    return true;
  }
  if (accept("[")) return address(out, depth);
  if (accept("{")) {
    out->kind = Operand::Kind::vector;
    return operands(&out->parts, "}", depth);
  }
  if (accept("(")) {
    out->kind = Operand::Kind::list;
    return operands(&out->parts, ")", depth);
  }
  const bool negative = accept("-");
  if (!begins_name(token_.text)) return constant(out, negative);
  const std::string_view name = take().text;
  if (name == "_") {
    out->kind = Operand::Kind::sink;
  } else if (!named(name, out)) {
    return false;
  }
  if (negative && out->kind != Operand::Kind::reg) return fail("expected a number");
  out->negated = negative;
  if (token_.adjacent && is_selector(token_.text)) {
    out->selector = take().text.substr(1);
  } else if (token_.adjacent && token_.text.starts_with('.')) {
    const std::string_view suffix = take().text;
    out->component = static_cast<int8_t>(component_of(suffix));
    if (out->component < 0) return fail("unknown component '" + std::string(suffix) + "' before");
    if (out->kind == Operand::Kind::special)
      out->name = {name.data(), static_cast<size_t>(suffix.data() + suffix.size() - name.data())};
  }
  if (is("+") || is("-")) {
    bool minus = false;
    while (is("+") || is("-")) minus ^= take().text == "-";
    uint64_t n = 0;
    if (!whole(&n, UINT64_MAX)) return false;
    out->value += minus ? -n : n;
  }
  if (accept("|")) {
    Operand first = std::move(*out);
    *out = {};
    out->kind = Operand::Kind::pair;
    out->parts.push_back(std::move(first));
    return operand(&out->parts.emplace_back(), depth + 1);
  }
  return true;
}

}  // namespace devtrace::ptx

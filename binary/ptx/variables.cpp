// Declarations: variables with their initial values, registers, parameters.
#include <algorithm>
#include <cstring>
#include <utility>

#include "binary/ptx/parser.h"

namespace devtrace::ptx {
namespace {

bool is_name(std::string_view word) {
  return !word.empty() &&
         (std::isalpha(static_cast<unsigned char>(word[0])) || word[0] == '_' || word[0] == '$' || word[0] == '%');
}

}  // namespace

// After its space: [.attribute(.managed)] [.align N] [.v2] .type [.ptr …] name[count][…] [= …] {, name …} ;
bool Parser::declaration(Space space, bool external, std::vector<Variable>* into, Scope* scope) {
  Variable common;
  common.space = space;
  common.external = external;
  size_t vector = 1;
  while (token_.text.starts_with('.')) {
    const std::string_view word = modifier();
    uint64_t n = 0;
    if (word == ".align") {
      if (!whole(&n, 1 << 20)) return false;
      common.alignment = n;
    } else if (word == ".v2" || word == ".v4" || word == ".v8") {
      vector = static_cast<size_t>(word[2] - '0');
    } else if (word == ".attribute") {
      if (!expect("(")) return false;
      while (!at_end() && !is(")")) common.managed |= take().text == ".managed";
      if (!expect(")")) return false;
    } else if (word == ".ptr") {
      while (find_space(token_.text) != Space::none) take();
      if (accept(".align") && !whole(&n, 1 << 20)) return false;
    } else if (const TypeFacts* type = find_type(word)) {
      common.type = type->type;
    } else {
      return fail("unknown attribute '" + std::string(word) + "' before");
    }
  }
  if (common.type == Type::none) return fail("expected a type");
  common.bytes = bytes_of(common.type) * vector;
  if (!common.alignment) common.alignment = common.bytes;
  do {
    Variable variable;
    if (!declarator(common, &variable)) return false;
    const bool global = into == &module_.variables;
    auto& names = !scope ? globals_ : global ? scope->globals : scope->variables;
    names[variable.name] = static_cast<uint32_t>(into->size());
    into->push_back(std::move(variable));
  } while (accept(","));
  return expect(";");
}

bool Parser::declarator(const Variable& common, Variable* variable) {
  *variable = common;
  if (!is_name(token_.text)) return fail("expected a name");
  variable->name = take().text;
  const size_t element = bytes_of(common.type);
  bool array = false;
  while (accept("[")) {
    array = true;
    uint64_t count = 0;
    if (is("]"))
      variable->unsized = true;
    else if (!whole(&count, kMostBytes))
      return false;
    if (!expect("]")) return false;
    if (variable->unsized) continue;
    if (count && variable->bytes > kMostBytes / count) return fail("too large");
    variable->bytes *= count;
  }
  if (variable->unsized) variable->bytes = 0;
  // name<N>: N of them are never addressed together.
  if (!accept("=")) return true;
  size_t at = 0;
  const bool braces = is("{");
  if (!initial_value(variable, element, &at, 0)) return false;
  if (variable->unsized && array && braces) {
    variable->bytes = at;
    variable->unsized = false;
  }
  return variable->initial.size() <= variable->bytes || fail("more values than room");
}

// A value, or values in braces. An unsized array may have as many as its text.
bool Parser::initial_value(Variable* variable, size_t element, size_t* at, int depth) {
  if (depth > kMostDepth) return fail("too deep");
  if (accept("{")) {
    while (!at_end() && !is("}")) {
      if (!initial_value(variable, element, at, depth + 1)) return false;
      if (!accept(",")) break;
    }
    return expect("}");
  }
  if (!variable->unsized && (*at >= variable->bytes || variable->bytes - *at < element))
    return fail("more values than room");
  bool generic = false;
  // mask(symbol), as in 0xFF00(symbol), is for single bytes of addresses; nobody writes it.
  if (accept("generic")) generic = expect("(");
  const bool negative = accept("-");
  if (is_name(token_.text)) {
    AddressOf word{*at, take().text, 0};
    if (generic && !expect(")")) return false;
    const bool minus = is("-");
    if (accept("+") || accept("-")) {
      uint64_t n = 0;
      if (!whole(&n, INT64_MAX)) return false;
      word.addend = minus ? -static_cast<int64_t>(n) : static_cast<int64_t>(n);
    }
    variable->initial.resize(std::max(variable->initial.size(), *at + element));
    variable->addresses.push_back(word);
  } else {
    const std::optional<Number> n = number();
    if (!n) return fail("expected a value before");
    const TypeFacts& type = facts(variable->type);
    uint64_t bits = bits_as(*n, type.kind, element);
    if (negative) bits = type.kind == 'f' ? bits ^ uint64_t { 1 } << (8 * element - 1) : -bits;
    variable->initial.resize(std::max(variable->initial.size(), *at + element));
    std::memcpy(variable->initial.data() + *at, &bits, std::min(element, sizeof bits));
  }
  *at += element;
  return true;
}

// After .reg: [.v2] .type name [<count>] {, name …} ;
bool Parser::registers(Scope* scope) {
  Register common;
  while (token_.text.starts_with('.')) {
    const std::string_view word = modifier();
    if (word == ".v2" || word == ".v4" || word == ".v8")
      common.vector = static_cast<uint8_t>(word[2] - '0');
    else if (const TypeFacts* type = find_type(word))
      common.type = type->type;
    else
      return fail("unknown type '" + std::string(word) + "' before");
  }
  if (common.type == Type::none) return fail("expected a type");
  std::vector<Register>& all = function_->registers;
  do {
    if (!is_name(token_.text)) return fail("expected a register");
    const std::string_view name = take().text;
    uint64_t count = 1;
    const bool range = accept("<");
    if (range && (!whole(&count, kMostRegisters) || !expect(">"))) return false;
    register_count_ += count;
    if (all.size() + count > kMostRegisters || register_count_ > kMostOfAll) return fail("too many registers");
    const auto first = static_cast<uint32_t>(all.size());
    if (range)
      scope->ranges[name] = {first, static_cast<uint32_t>(count)};
    else
      scope->registers[name] = first;
    all.insert(all.end(), count, common);
  } while (accept(","));
  return expect(";");
}

// After "(": .param … name, or .reg … name for functions of old.
bool Parser::parameters(std::vector<Variable>* into) {
  while (!at_end() && !is(")")) {
    const bool reg = is(".reg");
    if (!reg && !is(".param")) return fail("expected .param");
    take();
    Variable one;
    one.space = reg ? Space::reg : Space::param;
    size_t vector = 1;
    while (token_.text.starts_with('.')) {
      const std::string_view word = modifier();
      uint64_t n = 0;
      if (word == ".align") {
        if (!whole(&n, 1 << 20)) return false;
        one.alignment = n;
      } else if (word == ".v2" || word == ".v4") {
        vector = static_cast<size_t>(word[2] - '0');
      } else if (word == ".ptr") {
        while (find_space(token_.text) != Space::none) take();
        if (accept(".align") && !whole(&n, 1 << 20)) return false;
      } else if (const TypeFacts* type = find_type(word)) {
        one.type = type->type;
      } else {
        return fail("unknown attribute '" + std::string(word) + "' before");
      }
    }
    if (one.type == Type::none) return fail("expected a type");
    one.bytes = bytes_of(one.type) * vector;
    if (!one.alignment) one.alignment = one.bytes;
    Variable named;
    if (is("_")) {  // of a prototype
      take();
      named = one;
      if (accept("[")) {
        uint64_t n = 0;
        if (!whole(&n, 1 << 20) || !expect("]")) return false;
        named.bytes *= n;
      }
    } else if (!declarator(one, &named)) {
      return false;
    }
    into->push_back(std::move(named));
    if (!accept(",")) break;
  }
  return expect(")");
}

}  // namespace devtrace::ptx

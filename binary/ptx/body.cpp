// Functions and their statements.
#include <algorithm>
#include <cctype>
#include <utility>

#include "binary/ptx/parser.h"

namespace devtrace::ptx {

// After .entry or .func: [(results)] name [(parameters)] attributes, then a body or ";".
bool Parser::function(bool entry, bool external) {
  Function f;
  f.entry = entry;
  while (is(".attribute")) {
    take();
    while (!at_end() && !accept(")")) take();
  }
  if (accept("(") && !parameters(&f.results)) return false;
  if (at_end()) return fail("expected a name");
  f.name = take().text;
  if (accept("(") && !parameters(&f.parameters)) return false;
  if (!attributes(&f)) return false;
  if (accept(";") || external) {
    module_.functions.push_back(std::move(f));
    return true;
  }
  if (!expect("{")) return false;
  f.defined = true;
  function_ = &f;
  scopes_.assign(1, {});
  // Parameters that are registers.
  for (std::vector<Variable>* list : {&f.parameters, &f.results})
    for (const Variable& one : *list)
      if (one.space == Space::reg) {
        scopes_[0].registers[one.name] = static_cast<uint32_t>(f.registers.size());
        f.registers.push_back({one.type, static_cast<uint8_t>(one.bytes / bytes_of(one.type))});
      }
  unresolved_.clear();
  table_names_.clear();
  const bool good = body(0);
  function_ = nullptr;
  scopes_.clear();
  if (!good) return false;
  module_.functions.push_back(std::move(f));
  return true;
}

bool Parser::attributes(Function* f) {
  while (token_.text.starts_with('.')) {
    const std::string_view word = modifier();
    const bool limit = word == ".maxntid" || word == ".reqntid";
    uint64_t threads = 1;
    size_t dimension = 0;
    while (!at_end() && std::isdigit(static_cast<unsigned char>(token_.text[0]))) {
      uint64_t n = 0;
      if (!whole(&n, UINT32_MAX)) return false;
      threads = std::min<uint64_t>(threads * std::max<uint64_t>(n, 1), 1024);
      if (word == ".reqnctapercluster" && dimension < 3) f->cluster[dimension++] = static_cast<uint32_t>(n);
      if (!accept(",")) break;
    }
    if (word == ".pragma") skip_statement();
    if (word == ".abi_preserve" || word == ".noreturn") continue;
    if (limit) f->max_threads = static_cast<int>(threads);
    if (word == ".maxnreg") f->most_registers = static_cast<int>(threads);
    for (size_t i = 1; i < 3; ++i)
      if (f->cluster[0] && !f->cluster[i]) f->cluster[i] = 1;
  }
  return true;
}

// Up to the brace that closes it.
bool Parser::body(int depth) {
  if (depth > kMostDepth) return fail("too deep");
  scopes_.back().unresolved = unresolved_.size();
  while (!is("}")) {
    if (at_end()) return fail("the function does not end");
    if (accept("{")) {
      scopes_.emplace_back();
      if (!body(depth + 1)) return false;
    } else if (!statement()) {
      return false;
    }
  }
  take();
  resolve_labels(scopes_.back());
  if (scopes_.size() > 1) scopes_.pop_back();
  return true;
}

// Of the names that stand in this scope: those of its labels. What is left may be one of an outer scope.
void Parser::resolve_labels(Scope& scope) {
  std::vector<Unresolved> left;
  for (size_t i = scope.unresolved; i < unresolved_.size(); ++i) {
    const Unresolved& one = unresolved_[i];
    if (one.in_table) {
      const auto found = scope.labels.find(table_names_[one.operand].first);
      if (found == scope.labels.end())
        left.push_back(one);
      else
        function_->tables[one.instruction][table_names_[one.operand].second] = found->second;
      continue;
    }
    Operand& operand = function_->body[one.instruction].operands[one.operand];
    if (const auto label = scope.labels.find(operand.name); label != scope.labels.end()) {
      operand.kind = Operand::Kind::label;
      operand.index = label->second;
    } else if (const auto table = scope.tables.find(operand.name); table != scope.tables.end()) {
      operand.kind = Operand::Kind::table;
      operand.index = table->second;
    } else {
      left.push_back(one);
    }
  }
  unresolved_.resize(scope.unresolved);
  unresolved_.insert(unresolved_.end(), left.begin(), left.end());
}

// PTX ISA, ".loc": a place that a function was inlined into was named before, as one with its own caller, perhaps. Not
// looked for beyond some: a function may have many.
uint32_t Parser::location_of(const Location& place) {
  constexpr size_t kLookedAt = 1000;
  std::vector<Location>& all = function_->locations;
  for (size_t i = all.size(); i > 0 && all.size() - i < kLookedAt; --i) {
    const Location& one = all[i - 1];
    if (one.file == place.file && one.line == place.line && one.column == place.column) return static_cast<uint32_t>(i);
  }
  all.push_back(place);
  return static_cast<uint32_t>(all.size());
}

// file line column
bool Parser::place(Location* at) {
  uint64_t file = 0, line = 0, column = 0;
  if (!whole(&file, UINT32_MAX) || !whole(&line, UINT32_MAX) || !whole(&column, UINT32_MAX)) return false;
  *at = {static_cast<uint32_t>(file), static_cast<uint32_t>(line), static_cast<uint32_t>(column)};
  return true;
}

// After ".loc": file line column [, function_name label [+ n], inlined_at file line column]
bool Parser::location() {
  Location here, caller;
  if (!place(&here)) return false;
  while (accept(",")) {
    const std::string_view word = take().text;
    uint64_t n = 0;
    if (word == "function_name") {
      take();
      if (accept("+") && !whole(&n, UINT64_MAX)) return false;
    } else if (word == "inlined_at") {
      if (!place(&caller)) return false;
      here.caller = location_of(caller);
    } else {
      return fail("unknown attribute of .loc before");
    }
  }
  function_->locations.push_back(here);
  return true;
}

bool Parser::label(std::string_view name) {
  Scope& scope = scopes_.back();
  if (accept(".branchtargets")) {
    const auto table = static_cast<uint32_t>(function_->tables.size());
    scope.tables[name] = table;
    std::vector<uint32_t>& targets = function_->tables.emplace_back();
    do {
      table_names_.emplace_back(take().text, static_cast<uint32_t>(targets.size()));
      unresolved_.push_back({table, static_cast<uint32_t>(table_names_.size() - 1), true});
      targets.push_back(UINT32_MAX);
    } while (accept(",") && !at_end());
    return expect(";");
  }
  if (is(".callprototype") || is(".calltargets")) {
    skip_statement();
    return true;
  }
  scope.labels[name] = static_cast<uint32_t>(function_->body.size());
  return true;
}

bool Parser::statement() {
  if (accept(";")) return true;
  if (is("@")) return instruction();
  if (!token_.text.starts_with('.')) return instruction();
  const std::string_view word = take().text;
  if (word == ".loc") return location();
  if (word == ".reg") return registers(&scopes_.back());
  if (word == ".pragma") {
    skip_statement();
    return true;
  }
  if (word == ".file") {
    read_file();
    return !failed_;
  }
  bool external = false;
  std::string_view space = word;
  while (space == ".extern" || space == ".weak" || space == ".visible") {
    external |= space == ".extern";
    space = take().text;
  }
  const Space found = find_space(space);
  // Those are the module's own, but for the scope of their names.
  if (found == Space::global || found == Space::constant)
    return declaration(found, external, &module_.variables, &scopes_.back());
  if (found != Space::none) return declaration(found, external, &function_->variables, &scopes_.back());
  return fail("unknown directive '" + std::string(word) + "' before");
}

bool Parser::instruction() {
  Instruction one;
  one.line = static_cast<uint32_t>(token_.line);
  one.location = static_cast<uint32_t>(function_->locations.size());
  if (accept("@")) {
    one.guard_negated = accept("!");
    uint32_t guard = 0;
    if (!find_register(token_.text, &guard)) return fail("unknown predicate");
    take();
    one.guard = static_cast<int>(guard);
  }
  if (at_end()) return fail("expected an instruction");
  const Token word = take();
  if (one.guard < 0 && accept(":")) return label(word.text);
  if (!std::isalpha(static_cast<unsigned char>(word.text[0])) && word.text[0] != '_')
    return fail("unknown instruction '" + std::string(word.text) + "' before");
  one.opcode = word.text;
  while (token_.text.starts_with('.')) one.modifiers.push_back(modifier());
  while (!at_end() && !is(";")) {
    if (!operand(&one.operands.emplace_back(), 0)) return false;
    if (!accept(",") && !is(";") && one.opcode != "call") return fail("expected ';'");
  }
  if (!expect(";")) return false;
  const auto index = static_cast<uint32_t>(function_->body.size());
  for (size_t i = 0; i < one.operands.size(); ++i)
    if (one.operands[i].kind == Operand::Kind::name) unresolved_.push_back({index, static_cast<uint32_t>(i)});
  function_->body.push_back(std::move(one));
  return true;
}

}  // namespace devtrace::ptx

// What the files of the parser share.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binary/ptx/lexer.h"
#include "binary/ptx/module.h"
#include "binary/ptx/numbers.h"
#include "binary/ptx/parse.h"

namespace devtrace::ptx {

// More than any compiler writes: what has more is refused.
constexpr size_t kMostRegisters = size_t{1} << 20;  // of a function
constexpr size_t kMostOfAll = size_t{1} << 24;      // of all functions
constexpr size_t kMostBytes = size_t{1} << 32;      // of a variable
constexpr int kMostDepth = 64;                      // of braces in braces

class Parser {
 public:
  explicit Parser(Module* module) : module_(*module), lexer_(*module->text) {}
  bool parse();  // false: see error()
  const Error& error() const { return error_; }

 private:
  // What a name stands for between two braces.
  struct Range {
    uint32_t first = 0, count = 0;  // %r<count>
  };
  struct Scope {
    std::unordered_map<std::string_view, uint32_t> registers;
    std::unordered_map<std::string_view, Range> ranges;
    std::unordered_map<std::string_view, uint32_t> variables, globals;
    std::unordered_map<std::string_view, uint32_t> labels, tables;
    size_t unresolved = 0;  // where its names begin in unresolved_
  };
  // A name that may yet turn out to be a label: an operand of an instruction, or an entry of a table.
  struct Unresolved {
    uint32_t instruction, operand;
    bool in_table = false;
  };

  // parse.cpp: words, and what stands outside of functions.
  const Token& peek() { return token_; }
  Token take();
  bool is(std::string_view text) const { return token_.text == text; }
  bool accept(std::string_view text);
  bool expect(std::string_view text);
  bool fail(std::string text);
  bool at_end() const { return token_.text.empty(); }
  std::string_view modifier();
  std::optional<Number> number();
  bool whole(uint64_t* value, uint64_t most);
  void directive();
  void header();
  void skip_section();
  void skip_statement();
  void read_file();

  // variables.cpp
  bool declaration(Space space, bool external, std::vector<Variable>* into, Scope* scope);
  bool declarator(const Variable& common, Variable* variable);
  bool initial_value(Variable* variable, size_t element, size_t* at, int depth);
  bool registers(Scope* scope);
  bool parameters(std::vector<Variable>* into);

  // body.cpp
  bool function(bool entry, bool external);
  bool attributes(Function* f);
  bool body(int depth);
  bool statement();
  bool label(std::string_view name);
  uint32_t location_of(const Location& place);
  bool place(Location* at);
  bool location();
  bool instruction();
  void resolve_labels(Scope& scope);

  // operands.cpp
  bool operand(Operand* out, int depth);
  bool operands(std::vector<Operand>* into, std::string_view closing, int depth);
  bool address(Operand* out, int depth);
  bool named(std::string_view name, Operand* out);
  bool find_register(std::string_view name, uint32_t* index);
  bool constant(Operand* out, bool negative);

  Module& module_;
  Lexer lexer_;
  Token token_;
  Error error_;
  bool failed_ = false;
  Function* function_ = nullptr;
  size_t register_count_ = 0;  // of all functions
  std::vector<Scope> scopes_;
  std::vector<Unresolved> unresolved_;
  std::vector<std::pair<std::string_view, uint32_t>> table_names_;  // of unresolved entries of tables
  std::unordered_map<std::string_view, uint32_t> globals_;
};

}  // namespace devtrace::ptx

// A module of PTX as data: what parse() makes of its text.
//
// The manual's words are used (PTX ISA, versions 6 to 9). Names of registers, variables and labels are resolved where
// they stand, by the scopes around them; functions are named, as they may be declared later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binary/ptx/types.h"

namespace devtrace::ptx {

// A word of an initial value that is a variable's or a function's address.
struct AddressOf {
  size_t offset = 0;
  std::string_view symbol;
  int64_t addend = 0;
};

struct Variable {
  std::string_view name;
  Space space = Space::none;
  Type type = Type::none;
  size_t alignment = 0, bytes = 0;
  bool external = false, managed = false;
  bool unsized = false;          // name[]: as large as the launch says
  std::vector<uint8_t> initial;  // its beginning; what is not here is zero
  std::vector<AddressOf> addresses;
};

struct Register {
  Type type = Type::none;
  uint8_t vector = 1;
};

struct Operand {
  enum class Kind : uint8_t {
    sink,       // _
    reg,        // index: of Function::registers
    special,    // name: "%tid.x"
    integer,    // value
    real,       // value: a double's bits
    real32,     // value: a float's bits
    variable,   // index: of Function::variables; value: what is added to its address
    parameter,  // index: of Function::parameters, behind these its results; value as above
    global,     // index: of Module::variables; value as above
    label,      // index: of Function::body
    table,      // index: of Function::tables
    name,       // a function's
    address,    // parts: its base, and for textures what follows; value: what is added
    vector,     // parts
    list,       // parts: what a call gives and takes
    pair,       // parts: d|p
  };
  Kind kind = Kind::sink;
  bool negated = false;   // !p, or -r
  int8_t component = -1;  // of a vector register
  // Of video instructions: which bytes ("b2", "b7610") or halves ("h1", "h32") of it.
  std::string_view selector;
  uint32_t index = 0;
  uint64_t value = 0;
  std::string_view name;
  std::vector<Operand> parts;
};

// Where in the source: .loc.
struct Location {
  uint32_t file = 0, line = 0, column = 0;
  // Of Function::locations, from 1 on: the line into which this one's function was inlined; 0: none.
  uint32_t caller = 0;
};

struct Instruction {
  std::string_view opcode;
  std::vector<std::string_view> modifiers;  // with their dots
  std::vector<Operand> operands;
  int guard = -1;  // register of its predicate
  bool guard_negated = false;
  uint32_t line = 0;      // of the text
  uint32_t location = 0;  // of Function::locations, from 1 on; 0: not known

  bool has(std::string_view modifier) const;
};

struct Function {
  std::string_view name;
  bool entry = false, defined = false;
  std::vector<Variable> results, parameters;
  std::vector<Register> registers;
  std::vector<Variable> variables;
  std::vector<Instruction> body;
  std::vector<std::vector<uint32_t>> tables;  // .branchtargets: instructions
  std::vector<Location> locations;
  int max_threads = 1024;
  int most_registers = 0;    // .maxnreg; 0: it does not say
  uint32_t cluster[3] = {};  // blocks of a cluster; zeros: the launch says how many
};

struct Module {
  std::shared_ptr<const std::string> text;  // what the names point into
  std::string_view header;                  // the comments in front of .version: who made it
  int version = 0;                          // 78 for 7.8
  int architecture = 0;                     // 90 for sm_90
  int address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::unordered_map<uint32_t, std::string_view> files;  // .file: number, path

  // The one that is defined, else declared; null: none.
  const Function* find(std::string_view name) const;
};

}  // namespace devtrace::ptx

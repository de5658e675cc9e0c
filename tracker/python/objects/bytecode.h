// The instructions of a code object, and how deep its value stack is at each of them, as the compiler counted it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::python {

struct BytecodeInstruction {
  uint8_t opcode = 0;
  int argument = 0;    // with its EXTENDED_ARGs
  size_t offset = 0;   // of the opcode itself, in bytes
  size_t begin = 0;    // of its first EXTENDED_ARG
  size_t end = 0;      // behind its inline caches
  int depth = kUnset;  // values on the stack before it runs; kUnset: nothing leads there
  static constexpr int kUnset = -1;
};

// CPython's names of opcodes and which of them jump, from its module `opcode`. Under the GIL.
struct Opcodes {
  std::string names[256];
  bool jumps_forward[256] = {};   // by their argument
  bool jumps_backward[256] = {};  // the same
  bool jumps_to[256] = {};        // to their argument, up to 3.10
  bool ends[256] = {};            // nothing runs on behind them
  int extended_argument = -1;
};

// nullptr where the program has not imported the module, which PyTorch does.
const Opcodes* opcodes(const Api& api);

class Bytecode {
 public:
  // Under the GIL. Nothing where this CPython (3.minor) does not say what its instructions do to the stack, or where
  // two ways to an instruction disagree.
  static std::optional<Bytecode> read(const Api& api, PyObject* code, int minor);

  // The instruction whose opcode is at a byte offset; nullptr when there is none, or its depth is not known.
  const BytecodeInstruction* at(size_t offset) const;
  const BytecodeInstruction* before(const BytecodeInstruction& instruction) const;
  const std::string& name(const BytecodeInstruction& instruction) const { return opcodes_.names[instruction.opcode]; }

 private:
  explicit Bytecode(const Opcodes& opcodes) : opcodes_(opcodes) {}
  void decode(const std::string& bytes, int minor);
  bool count(const Api& api, PyObject* code, int minor);
  size_t target(const BytecodeInstruction& jump, int minor) const;

  const Opcodes& opcodes_;
  std::vector<BytecodeInstruction> instructions_;
  std::unordered_map<size_t, size_t> index_of_;  // by `begin` and by `offset`
};

}  // namespace devtrace::python

// What C++ says of a kernel's parameters: their types by its signature, their names by its declaration, and what the
// launching line gives for them.
#pragma once

#include <string>
#include <vector>

#include "finding/finding.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/findings/misplaced.h"

namespace devtrace::findings {

struct CppParameters {
  std::vector<std::string> types, names, arguments;
  std::string module;  // of the launching code: its debug information has the types

  // ... stands at that byte of what the parameter leads to: `rows[1]`, `batch->values`.
  void add_place(finding::Operand& operand, size_t in_memory) const;
  // `offset`: where in the parameter the address stands.
  void add_to(finding::Operand& operand, size_t parameter, size_t offset) const;
};

// `kernel`: its name, demangled; `shown`: the stack of the launch, as it is told.
CppParameters cpp_parameters(const MisplacedLaunch& misplaced, const std::string& kernel,
                             const evidence::NativeStack& native, const finding::Stack& shown,
                             const evidence::SourceText& source);

// Operands without a name are called as the line calls what it makes that they came by, where a function of the launch
// has it.
void name_by_allocation(finding::List<finding::Operand>& operands, const finding::Stack& launch);

}  // namespace devtrace::findings

// Where a function puts the arguments that came in registers, by its first instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace devtrace::evidence {

// A place that a function keeps a value in while it calls others.
struct ValuePlace {
  int base;        // number of a register: rbx 3, rsp 4, rbp 5, r12 to r15
  bool in_memory;  // at `displacement` from it; else in the register itself
  int displacement;
};

// For rdi, rsi, rdx, rcx, r8 and r9, in this order. Read are instructions up to the first jump, call or comparison, and
// up to the first that is not understood: what compilers put in front of a function's own work.
using KeptArguments = std::array<std::vector<ValuePlace>, 6>;
KeptArguments kept_arguments(const uint8_t* code, size_t bytes);

}  // namespace devtrace::evidence

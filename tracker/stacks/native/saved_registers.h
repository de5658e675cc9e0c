// What the registers that a function must keep held in a frame further out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace devtrace::stacks {

struct SavedRegisters {
  // By their numbers in x86-64's instructions; known are rbx, rsp, rbp and r12 to r15. Of other processors none.
  std::array<uintptr_t, 16> value{};
  uintptr_t caller_sp = 0;  // behind the return address: where arguments that found no register begin
};

// Of the calling thread's innermost frame that goes on at `address`. Takes microseconds; for findings only.
std::optional<SavedRegisters> registers_at(uintptr_t address);

}  // namespace devtrace::stacks

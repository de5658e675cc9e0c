// What is known of a kernel: its name, where in its parameters a pointer can stand, whether it may touch other devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace devtrace::kernels {

struct Parameter {
  size_t offset = 0;  // in the parameter block, bytes
  size_t bytes = 0;
};

// Made once for each function and kept for the life of the process.
struct Kernel {
  struct Word {
    uint16_t parameter;
    uint16_t in_parameter;  // offset in the parameter, bytes
    uint32_t in_block;      // offset in the parameter block, bytes
  };
  std::string name;         // as the program's image has it, mangled
  std::vector<Word> words;  // aligned 8 bytes that can be a pointer: structures hold them, too
  bool excused = false;     // its job is to reach other devices (policy)
};

// Hot. What `remember` was told about this function; null before.
const Kernel* known(const void* function);
// Keeps it, and answers with what is kept: another thread may have been faster. Allocates. `reads_address`: whether the
// kernel's code can use the word at that offset of the block as an address. Where nobody knows the code, structures are
// left out: PyTorch leaves fields unset that a kernel does not read, and what lies there is often an old pointer.
const Kernel* remember(const void* function, std::string name, const std::vector<Parameter>& parameters,
                       const std::function<bool(size_t)>& reads_address = {});
// Handles of unloaded modules are given out again: what is known of functions is asked anew.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::kernels

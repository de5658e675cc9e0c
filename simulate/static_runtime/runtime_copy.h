// The CUDA runtime that a program or a library has inside it: what nvcc links by default, and what CuPy's wheels have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace devtrace::simulate::static_runtime {

// One of its functions.
struct RuntimeFunction {
  std::string name;
  uintptr_t offset;  // from the object's base
  size_t room;       // bytes up to the next function
};

struct RuntimeCopy {
  enum class State {
    none,
    outside,  // in another file, to which this one is linked, or which it opens
    named,    // its functions are in the file's .symtab
  };
  State state = State::none;
  int major = 0;                         // of its CUDA version; 0: not known
  std::vector<RuntimeFunction> entries;  // of one with names
};

// Looks for it in a program or a library on disk.
RuntimeCopy find_runtime_copy(const std::string& path);

}  // namespace devtrace::simulate::static_runtime

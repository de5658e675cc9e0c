// A kernel's launch, computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/kernels/code.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

struct Launch {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t cluster[3] = {1, 1, 1};  // blocks; each of them divides the grid's
  size_t dynamic_shared = 0;
  std::vector<uint8_t> parameters;
  std::vector<uint64_t> variables;  // addresses, by the index of ptx::Module::variables
  uint64_t workspace = 0;           // address of a cooperative launch's size and barrier, 32 bits each; 0: it is none
  unsigned threads = 1;             // of the host
  double seconds = 600;             // after which it ends
  bool hazards = false;             // whether races in shared memory are looked for
};

struct Result {
  FaultKind kind = FaultKind::none;
  std::string text;    // what could not be done, what was asserted; of a hazard: which other access there was
  std::string kernel;  // where it is another one than was launched: one that the kernel has launched
  uint32_t block[3] = {}, thread[3] = {};
  uintptr_t address = 0;
  size_t size = 0;
  bool writes = false;
  std::string instruction;  // "st.global.f32"
  std::string file;         // of its .loc; empty: not known
  uint32_t line = 0;
  std::string shared_variable;  // of a hazard
};

// The clusters that the kernel's own text asks for; else of one block each.
void set_cluster(const Program& program, uint32_t function, Launch* launch);

// `function`: of Program::codes, an entry.
Result run(const Program& program, uint32_t function, const Launch& launch, Memory& memory);

}  // namespace devtrace::simulate::kernels

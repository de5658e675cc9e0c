// The functions that the compiler inlined at an address, where -gsplit-dwarf put what is known of them into files
// beside the program, which libbacktrace does not read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "binary/elf/file.h"

namespace devtrace::dwarf {

struct InlinedCall {
  std::string function;  // as the linker has it, or as it is written
  std::string file;      // where it is called: of its caller, the function before it
  int line;
};

// A program or library. Its file is held; what it was split into is opened when an address leads there, and held too.
class Module {
 public:
  explicit Module(const std::string& path);
  ~Module();
  Module(Module&&) noexcept;

  const std::string& path() const { return path_; }
  // Outermost first. `offset` is the address as the file has it.
  std::vector<InlinedCall> inlined_at(uint64_t offset);

 private:
  struct Skeleton;
  class Opened;
  const Opened& opened(const Skeleton& skeleton);

  std::string path_;
  std::unique_ptr<elf::File> file_;
  std::vector<std::unique_ptr<Skeleton>> skeletons_;
  std::vector<std::unique_ptr<Opened>> opened_;
};

// The same of a module that is kept for good. Empty where nothing was inlined, or where the module is not split, or its
// .dwo and .dwp are gone, of another build or compressed. One thread at a time. The first call for a module reads the
// first entry of each of its units, the first for a unit all of its entries.
std::vector<InlinedCall> inlined_at(const std::string& module, uint64_t offset);

}  // namespace devtrace::dwarf

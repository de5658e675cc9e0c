// What is known of a kernel: its name, where in its parameters a pointer can stand, whether it may touch other devices.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binary/device/array.h"
#include "binary/device/parameter.h"

namespace devtrace {

// Aligned words of one kind that follow each other in one parameter.
struct WordRun {
  uint16_t parameter = 0;
  uint16_t in_parameter = 0;  // of the first word: offset in the parameter, bytes
  uint32_t in_block = 0;      // the same in the parameter block
  uint32_t words = 0;
  // The code certainly goes to memory with them; until it has been asked, those of parameters so small that nothing in
  // them is left unset.
  bool address = false;
  int array = -1;  // number in Words::arrays: only some launches use the words; -1: all do
};

// A word that is an address at every launch.
struct AddressWord {
  uint32_t parameter = 0;
  uint32_t in_parameter = 0;
};

struct KernelWords {
  std::vector<WordRun> runs;
  // The same for launches that pass an address for each parameter: most have nothing but words of the first sort.
  std::vector<AddressWord> addresses;
  std::vector<WordRun> other_runs;
  std::vector<device::Array> arrays;
  bool code_asked = false;
  bool excused = false;      // as the kernel is
  bool each_counts = false;  // at every launch: it is not, there are no arrays, and there is a table of owners
};

// What the code does with the word at an offset of the parameter block, for whoever can read it.
struct WordUse {
  enum class As : uint8_t { nothing, possible_address, address } as = As::nothing;
  std::optional<device::Array> array;  // that the word is in, if only some launches use it
  bool operator==(const WordUse&) const = default;
};
using WordUses = std::function<WordUse(size_t in_block)>;

// Made once for each function and kept for the life of the process.
struct Kernel {
  const void* function = nullptr;  // with which it is launched
  std::string name;                // as the program's image has it, mangled
  bool excused = false;            // its job is to reach other devices (policy)
  std::vector<device::Parameter> parameters;
  // Hot. The words that can be a pointer, structures' own included: all of them, until the code has been asked.
  const KernelWords& words() const { return *words_.load(std::memory_order_acquire); }
  // Counts the launches that looked suspicious and were not: true when reading the code would be cheaper by now.
  bool worth_reading() const { return looks_.fetch_add(1, std::memory_order_relaxed) >= kManyLooks; }

  mutable std::atomic<const KernelWords*> words_{nullptr};
  mutable std::atomic<uint32_t> looks_{0};
  static constexpr uint32_t kManyLooks = 1000;  // a look costs a microsecond, reading code a few milliseconds
};

}  // namespace devtrace

// Memory that a kernel or an operator should have written which nobody computed: kept until something computed is
// written there, and told when the host reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace devtrace::simulate::values {

// Who should have written it; 0: nobody.
using Source = int;
// Nobody should have: it was allocated, and nothing has written there since (--kernel-checks all). The host may read
// it.
constexpr Source kNeverWritten = -1;
// Whether it writes there, or may do so by an address that lies in memory.
enum class Certainty { certain, perhaps };
Source kernel_source(const std::string& mangled, Certainty certainty = Certainty::certain);
Source operator_source(const std::string& name);
// As another process calls it.
Source source_named(const std::string& name);
std::string name_of(Source source);

// What somebody should have written.
struct Unwritten {
  uintptr_t begin = 0;
  size_t size = 0;
  Source source = 0;
};

// Half-open ranges of addresses, each with a source.
struct UncomputedMemory {
  std::atomic<bool> any{false};  // false costs no more than this look

  void mark(uintptr_t begin, size_t size, Source source);
  void clear(uintptr_t begin, size_t size);
  // The first source in the range, of those that should have written there.
  Source find(uintptr_t begin, size_t size);
  // Whether all of it is kNeverWritten: a structure's padding never is, and is loaded with what lies beside it.
  bool never_written(uintptr_t begin, size_t size);
  // ... and from the first to the last byte that somebody should have written.
  Unwritten part(uintptr_t begin, size_t size);
  // What was copied is as uncomputed as it was where it came from. What was never written is not followed to the host.
  void copy(uintptr_t to, uintptr_t from, size_t size, bool to_host);
};
UncomputedMemory& uncomputed();
inline bool any_uncomputed() {
  return uncomputed().any.load(std::memory_order_relaxed);
}

// Marks what somebody should have written, and poisons it where that is wanted.
void mark(const std::vector<Unwritten>& all);

// What a kernel that is launched should have written, while it is not known yet whether somebody computes it
// (Thread::kernels_deferred); the calling thread's last one.
struct DeferredKernel {
  std::string mangled;
  std::vector<Unwritten> unwritten;
};
DeferredKernel& deferred_kernel();
// Nobody does.
void give_up_deferred_kernel();

// --poison: bytes that are not a number in every floating point type, -1 in whole ones. Without it nothing happens.
void poison(uintptr_t begin, size_t size);

// The host reads it, or decides by it: one line, once for each source; with --strict the process ends there.
// `may_take_gil`: false where the caller may be PyTorch's allocator, under its lock; the line is not known then.
void uncomputed_is_read(Source source, bool may_take_gil = true);

// --strict's end, with the status kNotComputed; without it nothing happens.
void end_if_strict();
// That end, and why.
[[noreturn]] void end_program(const char* why);

// Where in the program the calling thread is ("train.py:7", or a function in its object); empty: nobody knows.
std::string program_line(bool may_take_gil);

// What finds the line in Python; set once there is one. It takes the GIL.
void set_line_of_python(std::string (*line)());

// The block of PyTorch's caching allocator that holds the address; false: none. Set by torch/, which also clears what
// is allocated anew. Null: nobody knows PyTorch's blocks.
using BlockOf = bool (*)(uintptr_t address, uintptr_t* begin, size_t* size);
void set_block_of(BlockOf function);
BlockOf block_of();

// For the kernels of torch/.
struct UncomputedForTorch {
  const std::atomic<bool>* any;
  Source (*find)(uintptr_t begin, size_t size);
  void (*mark)(uintptr_t begin, size_t size, Source source);
  void (*clear)(uintptr_t begin, size_t size);
  void (*set_block_of)(BlockOf function);
  // --values small, see unknown.h.
  const std::atomic<size_t>* large_from;
  Source unknown;
  void (*left)();
  void (*read)();
};

}  // namespace devtrace::simulate::values

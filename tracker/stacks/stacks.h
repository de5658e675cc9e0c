// Stacks: taken without the GIL, without malloc and without locks held while calling out; kept once each; named later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace devtrace::stacks {

// A distinct stack, hash-consed for the life of the process: Python's or, where there is none, the native one. 0: no
// stack (none that could be read).
using StackId = uint32_t;

constexpr bool is_native(StackId id) {
  return id >> 31 != 0;
}

struct PythonFrame {
  std::string file;      // co_filename as it is, UTF-8
  std::string function;  // co_qualname, or co_name before CPython 3.11
  int line = 0;          // 1-based; 0 when the code object has none
};

struct NativeFrame {
  uintptr_t address = 0;  // the return address less one, so that it lies inside the call
  std::string module;     // path of the object file; empty when the address lies in none (JIT)
  uintptr_t offset = 0;   // address less the module's load base: what addr2line takes
  std::string function;   // demangled; empty when the module exports no name there
  std::string mangled;    // as the symbol table has it
  std::string file;       // empty without line information
  int line = 0;
  bool inlined = false;           // the compiler put this function's code into the next frame's
  uintptr_t function_offset = 0;  // where the symbol begins, in the module, and its size; 0: no symbol
  size_t function_bytes = 0;
  bool one_of_several = false;  // which of several places in the function is not known: there is no line
};

// Why Python stacks are or are not read in this process, as one line for the log and stderr. Empty before the first
// try. It changes: frames are read at once where the version's layout is known and a whole stack reads well. Soon
// after, on the main thread between two of its instructions, they are compared with what Python itself says; where
// that differs they are given up.
std::string python_status();

// The calling thread's Python stack, innermost frame first. Safe in any hook: with or without the GIL, under PyTorch's
// allocator locks. Never calls malloc, leaves errno alone; a new stack takes memory from the table's own arena. Returns
// 0 in threads without a Python frame, where Python cannot be read (python_status), and while Python ends. Of a deeper
// stack than 512 frames the innermost 512 are kept, and one more, outermost, with the function "[deeper frames left
// out]" and no file. A stack seen before costs 10 ns and 2.5 ns a frame. The same as this thread's last one 3 ns and
// 1 ns a frame, a new one some microseconds. The same files, functions and lines are the same id for the life of the
// process, also when code was made anew.
StackId capture_python();

// The same, or, where there is no Python frame, the calling thread's native stack as far as the option
// `allocation_stacks` wants it. Its innermost frame is the function of this library that was called in CUDA's or
// PyTorch's place, which has that function's name. As safe as capture_python. A native stack seen before costs 50 ns
// and 10 ns a frame. A thread on whose stacks no frame of the user's own stands (PyTorch's backward passes) is asked
// ever more rarely, and has none in between.
StackId capture();

// The same with what is known besides: whether a module of PyTorch's is being called (torch.nn.Module.__call__)
// anywhere in the stack. Never in a native one.
class Captured {
 public:
  // One of Python's may be marked by this bit, for ids of its stacks are smaller.
  static constexpr uint32_t kInModuleCall = 1u << 30;
  constexpr explicit Captured(uint32_t marked) : marked_(marked) {}

  StackId stack() const { return is_native(marked_) ? marked_ : marked_ & ~kInModuleCall; }
  bool in_module_call() const { return !is_native(marked_) && (marked_ & kInModuleCall) != 0; }

 private:
  uint32_t marked_;
};
Captured capture_with_call();

// Two stacks of the same statement have the same value: of Python's the stack itself, of a native one its part from the
// innermost frame of the user's own on. 0: of none.
StackId call_site_of(StackId id);

// Hot. Where the calling thread's innermost Python frame stands. While nothing but what it has called runs, it is the
// same, and then so is the whole stack. No frame: there is none, or frames do not say it by an address.
struct PythonPosition {
  uintptr_t frame = 0, instruction = 0;
  explicit operator bool() const { return frame != 0; }
  bool operator==(const PythonPosition&) const = default;
};
PythonPosition python_position();

// The same for one event, of which several want to know it: taken when the first asks.
class OnePythonStack {
 public:
  StackId id() {
    if (!taken_) id_ = capture_python();
    taken_ = true;
    return id_;
  }
  bool taken() const { return taken_; }

 private:
  StackId id_ = 0;
  bool taken_ = false;
};

// Frames of a stack, innermost first; none for 0. Takes no lock but allocates: for findings only, never in a hot hook.
std::vector<PythonFrame> resolve(StackId id);

// The same of a native stack; none for Python's. As costly as symbolize. Frames of objects that were unloaded since
// have no names.
std::vector<NativeFrame> resolve_native(StackId id, bool with_lines);

// The calling thread's native return addresses, innermost (this function's caller) first, at most `capacity` and 255;
// `skip` of the nearest are left out. Never throws, never calls malloc, leaves errno alone. None while another thread
// forks.
size_t capture_native(void** addresses, size_t capacity, size_t skip = 0);

// Names of native addresses as capture_native gave them, from the symbol tables in memory and, for functions that are
// not exported, on disk. 10 ms for a stack through PyTorch's libraries, more when their files are not in the page
// cache. `with_lines`: also files and lines (libbacktrace), if a frame lies in a module that may be the user's and
// has line information, and frames that a tail call left out. The first time in a process that takes up to half a
// second. For findings only.
std::vector<NativeFrame> symbolize(void* const* addresses, size_t count, bool with_lines);

// Around fork(): the parent's and the child's tables stay usable whatever other threads were doing. For pthread_atfork:
// before_fork as its prepare, after_fork as both its parent and its child. Without them a child may wait for ever for a
// lock of libunwind that another thread held.
void before_fork();
void after_fork();

// Number of distinct stacks and bytes held, for benchmarks and the end record.
struct Usage {
  size_t stacks;
  size_t bytes;
};
Usage usage();

}  // namespace devtrace::stacks

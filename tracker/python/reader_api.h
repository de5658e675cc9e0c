// What is taken from a CPython that this process may have: found in whichever object exports it, never linked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tracker/elf/dynamic_symbols.h"

namespace devtrace::stacks {

// The C API as far as it is used. Objects are opaque. "No GIL" marks what a hook may call.
struct PythonApi {
  const char* (*get_version)();                    // no GIL
  int (*is_initialized)();                         // no GIL
  void* (*this_thread_state)();                    // no GIL; also right while the GIL is released
  int (*is_finalizing)();                          // no GIL
  int (*add_pending_call)(int (*)(void*), void*);  // no GIL: runs on the main thread, soon, with it

  void* (*current_frame)();  // borrowed
  void* (*frame_back)(void*);
  void* (*frame_code)(void*);
  int (*frame_line)(void*);
  void* (*attribute)(void*, const char*);
  const char* (*utf8)(void*, intptr_t*);
  void (*increment)(void*);
  void (*decrement)(void*);
  void (*clear_error)();
  int (*disable_gc)();  // nullptr before 3.10, where looking at frames allocates nothing
  int (*enable_gc)();

  bool complete;  // else only the first three are certain to be there

  const char* code_type;  // PyCode_Type
  const char* str_type;   // PyUnicode_Type
  const char* bytes_type;
  const char* cell_type;  // nullptr where it is not exported: then variables are not read
  const void* runtime;    // _PyRuntime; nullptr where it is not exported
};

// The first loaded object that exports an initialised Python, otherwise the first that exports one; nothing when there
// is none. Takes only the loader's short list lock; never calls malloc.
std::optional<DynamicSymbols> python_symbols();

// Fills `api` from that object. False when there is none.
bool find_python(PythonApi& api);

}  // namespace devtrace::stacks

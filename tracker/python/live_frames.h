// A thread's Python frames and their variables for a holder of the GIL, read as memory. Asking CPython for a frame's
// variables (f_locals) leaves a dict on the frame up to 3.12. Every tensor in it would live until the function ends,
// and what the program wrote into its own locals() would be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracker/python/frame_walker.h"
#include "tracker/python/python_api.h"
#include "tracker/python/python_reader.h"

namespace devtrace::python {

// Where frames are read: a reader of the thread, and the thread's state.
struct FrameSource {
  const PythonReader* reader = nullptr;  // nullptr: this Python's frames cannot be read
  uintptr_t thread = 0;

  // Of the calling thread; needs no GIL.
  static FrameSource of_this_thread();
};

// Of the other threads, for a holder of the GIL: they stand still until it lets go. None of a free-threaded Python,
// whose threads run on.
std::vector<FrameSource> other_threads(const Api& api);

// Innermost first, as long as the thread stands still: the calling one, or one that waits for the caller.
std::vector<RawFrame> live_frames(const FrameSource& source, size_t most);

// A new dict of everything that the frame's names lead to at this moment, but for names that are no str. Empty when it
// cannot be read.
Ref variables_of(const Api& api, const PythonReader& reader, const RawFrame& frame);
// The dict of its module.
Ref globals_of(const Api& api, const PythonReader& reader, const RawFrame& frame);

inline PyObject* code_of(const RawFrame& frame) {
  return reinterpret_cast<PyObject*>(frame.code);
}

}  // namespace devtrace::python
